using System.Linq;
using Pairs = System.Collections.Generic.Dictionary<string, int>;

namespace Shop.Sales
{
    /// <summary>A shop.</summary>
    [Serializable]
    public class Shop<T> : Base, IShop where T : class, new()
    {
        private const int Limit = 10, Other = 0x1F;
        private readonly Dictionary<string, T> items = new();

        public int Size { get; private set; } = 3;

        /// <summary>
        /// Opens <see cref="Shop"/> it.
        /// </summary>
        /// <param name="size">How large it is.</param>
        public Shop(int size, params string[] more) : base(size)
        {
            this.Size = size;
        }

        ~Shop()
        {
            Close(true);
        }

        /** <summary>Adds two.</summary> */
        public static Shop<T> operator +(Shop<T> left, Shop<T> right) => left ?? right;

        //// Not documentation.
        [Pure, Obsolete("use { Sell }")]
        public async Task<int> Sum(string currency, CancellationToken token = default)
        {
            long total = 0;
            foreach (var (name, item) in items)
            {
                if (item is Priced { Price: > 0 } priced && priced.In(currency))
                {
                    total += priced.Price * (name.Length > 0 ? 1 : 2);
                }
                else
                {
                    continue;
                }
            }
            int Twice(int value)
            {
                return value * 2;
            }
            var text = $"sold {total} of {items.Count}: {{";
#if DEBUG
            Console.WriteLine(text);
#endif
            try
            {
                using var gate = new Lock();
                await gate.Acquire(token);
            }
            catch (IOException error) when (error.Data != null)
            {
                throw new InvalidOperationException("no lock: {", error);
            }
            return total switch
            {
                0 => 0,
                > 100 when token.IsCancellationRequested => -1,
                _ => Twice((int)total),
            };
        }

        /// <summary>Says how many.</summary>
        public int Count() => items.Where(pair => pair.Value != null).Count();

        protected abstract void Close(bool now);
    }

    public enum Colour
    {
        Red,
        Green = 2,
    }

    public record Range(int Low, int High);
}
