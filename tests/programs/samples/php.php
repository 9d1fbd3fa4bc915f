<?php

declare(strict_types=1);

namespace App\Shop;

use App\Base\Item as Thing;
use function App\Base\price;

/**
 * Adds them.
 *
 * @param int $a
 */
function add(int $a, ?int &$b = null, string ...$rest): int
{
    static $calls = 0;
    [$first, 'k' => $second] = $rest;
    foreach ($rest as $key => $value) {
        $calls += strlen($value) > 3 ? 1 : 2;
    }
    return $a + ($b ?? $first);
}

/** A shop. */
#[Attribute]
final class Shop extends Base implements \Countable
{
    use Sells;

    public const LIMIT = 10;
    private ?array $items = [1, 2], $more;

    /** Opens it. */
    #[Pure]
    public function __construct(private readonly string $name, protected int $size = 3)
    {
        parent::__construct("{$name} of $size {");
        $this->items = array_map(fn($item) => $item * $size, [1, 2]);
    }

    // Not documentation.
    public static function load(string $path): static
    {
        try {
            $text = file_get_contents($path);
        } catch (\RuntimeException | IOException $error) {
            throw new Failure("no file: {", 0, $error);
        } finally {
            self::$open = true;
        }
        return new self($text);
    }

    /**
     * Counts them.
     */
    public function count(): int
    {
        $check = function ($item) use (&$total): bool {
            return $item->price() > self::LIMIT;
        };
        $kind = match (true) {
            $this->size > 3, $this->size < 1 => 'large',
            default => 'small',
        };
        if (!empty($this->items) && $check($this->items[0])) {
            return count($this->items);
        } elseif ($kind === 'small') {
            return 0;
        }
        do {
            $this->size--;
        } while ($this->size > 100);
        return $this->size;
    }

    abstract protected function close(): void;
}

enum Suit: string
{
    case Hearts = 'H';

    public function label(): string
    {
        return ucfirst(strtolower($this->name));
    }
}
