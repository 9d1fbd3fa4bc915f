"""A file in each language, written for the tests; its functions, and words of their documentation."""

from __future__ import annotations

SAMPLES = {
    "javascript": (
        """\
import fs, { readFile as read } from "fs";
const { join, sep: slash } = require("path");

/**
 * Counts words.
 * @param {string} text
 */
export function count(text) {
  const words = new Map();
  for (const [word] of text.matchAll(/[a-z{]+/gi)) {
    words.set(word, (words.get(word) ?? 0) + 1);
  }
  return words;
}

// Not documentation.
const twice = (x) => x * 2;

/** A shop. */
class Shop extends Base {
  static #open = false;
  limit = 10;

  /** Opens it. */
  constructor(name, ...rest) {
    super(name);
    this.name = `${name} of ${rest.join(", ")}`;
  }

  async *orders(since) {
    function inner(order) {
      return order.date > since && !order.done;
    }
    try {
      yield* await this.all(inner);
    } catch (error) {
      console.error("failed", error);
    } finally {
      Shop.#open = true;
    }
  }

  /** Says goodbye. */
  close = async () => {
    switch (this.limit) {
      case 1:
        return fs.closeSync(this.file);
      default:
        this.limit -= 1;
    }
  };
}

module.exports.load = function (file) {
  return read(join(slash, file), { encoding: "utf8" });
};

const handlers = {
  /** When it is clicked. */
  click: (event) => {
    event.preventDefault();
  },
  key(event) {
    if (event.key === "}") {
      return;
    } else if (event.shift) {
      handlers.click(event);
    }
  },
};
""",
        {
            "count": "Counts words",
            "twice": None,
            "constructor": "Opens it",
            "orders": None,
            "inner": None,
            "close": "Says goodbye",
            "module.exports.load": None,
            "click": "When it is clicked",
            "key": None,
        },
    ),
    "typescript": (
        """\
import type { Reader } from "./reader";

export interface Named<T = string> {
  readonly name: T;
  greet(other: Named): void;
}

type Pair<K, V> = { [P in keyof K]?: V } & Named;

export enum Colour {
  Red = "red",
  Green = "green",
}

/** Adds them. */
export const add = (a: number, b: number): number => a + b;

@Injectable()
export abstract class Store<T extends Named> implements Reader {
  private readonly items: Map<string, T> = new Map();

  constructor(private url: string, public count?: number) {
    this.items.clear();
  }

  /**
   * Finds one.
   */
  @Cached({ seconds: 5 })
  async find(name: string): Promise<T | undefined> {
    const found = this.items.get(name) as T;
    return found ?? (await this.load<T>(name));
  }

  abstract load<U>(name: string): Promise<U>;

  get size(): number {
    return this.items.size;
  }
}

export default function main(this: Window, { argv }: { argv: string[] }) {
  const [first, ...rest] = argv;
  let total = 0;
  for (let i = 0; i < rest.length; i++) {
    total += rest[i]!.length;
  }
  return first satisfies string;
}
""",
        {"add": "Adds them", "constructor": None, "find": "Finds one", "size": None, "main": None},
    ),
    "typescriptreact": (
        """\
import { useState } from "react";

/** A list with a button. */
export function List({ items }: { items: string[] }) {
  const [open, setOpen] = useState(false);
  return (
    <div className="list">
      <button onClick={() => setOpen(!open)}>{open ? "hide" : "show"}</button>
      {open && items.map((item) => <p key={item}>{item}</p>)}
    </div>
  );
}
""",
        {"List": "A list with a button"},
    ),
    "java": (
        """\
package org.example.shop;

import java.util.List;
import static java.util.Map.entry;

/** Prices of a shop. */
@Immutable
public final class Prices<T extends Item> implements Iterable<T> {
    private static final int LIMIT = 10, OTHER = 0x1F;
    private final List<T> items;

    /** Makes them. */
    public Prices(List<T> items) throws IOException {
        this.items = items;
    }

    /**
     * Sums the prices.
     *
     * @return the sum
     */
    @Override
    @SuppressWarnings("unchecked")
    public long sum(final String currency, int... more) {
        long total = 0;
        for (T item : items) {
            if (item.in(currency) && item instanceof Priced priced) {
                total += priced.price() * (more.length > 0 ? more[0] : 1);
            } else {
                continue;
            }
        }
        return total;
    }

    abstract static class Visitor {
        abstract void visit(Item item);

        void all(List<? extends Item> items) {
            items.forEach(item -> {
                visit(item);
            });
            try (var lock = new Lock()) {
                lock.acquire();
            } catch (IllegalStateException | IOException e) {
                throw new RuntimeException("no lock: {", e);
            }
        }
    }

    enum Kind {
        FRESH("f") {
            boolean good() { return true; }
        },
        OLD("o");

        Kind(String letter) {
            int size = switch (letter) { case "f" -> 1; default -> 2; };
        }
    }

    record Range(int low, int high) {
        Range {
            if (low > high) throw new IllegalArgumentException();
        }
    }
}
""",
        {
            "Prices": "Makes them",
            "sum": "Sums the prices",
            "all": None,
            "good": None,
            "Kind": None,
            "Range": None,
        },
    ),
    "go": (
        """\
// Package shop sells.
package shop

import (
	"fmt"
	str "strings"
)

const (
	limit = iota
	other
)

// Shop has items.
type Shop struct {
	Name  string `json:"name"`
	items map[string][]int
	*base
}

type Seller interface {
	Sell(name string, count int) (price float64, err error)
}

// Sell takes items away.
// It may fail.
func (s *Shop) Sell(name string, count int) (float64, error) {
	found, ok := s.items[name]
	if !ok || len(found) < count {
		return 0, fmt.Errorf("no %q in %s {", name, s.Name)
	}
	check := func(n int) bool {
		return n > limit
	}
	for i, item := range found[:count] {
		switch {
		case check(item):
			defer s.log(i)
		default:
			go func() { s.done <- item }()
		}
	}
	return float64(count), nil
}

//go:noinline
func Map[K comparable, V any](from map[K]V, f func(V) V) map[K]V {
	to := make(map[K]V, len(from))
	var raw = `a
	( raw ] string`
	select {
	case v := <-channel:
		to[key] = f(v)
	}
	return to
}
""",
        {"Sell": "Sell takes items away", "check": None, "Map": None},
    ),
    "rust": (
        """\
//! A shop.
use std::{collections::HashMap, fmt};

/// Items by name.
#[derive(Debug, Clone, Default)]
pub struct Shop<'a, T> {
    items: HashMap<&'a str, Vec<T>>,
    open: bool,
}

impl<'a, T: Clone + fmt::Display> Shop<'a, T> {
    const LIMIT: usize = 10;

    /// Makes an empty one.
    ///
    /// Nothing is in it.
    #[must_use]
    pub fn new() -> Self {
        Self { items: HashMap::new(), open: false }
    }

    //// No documentation.
    pub fn sell(&mut self, name: &str, count: usize) -> Option<Vec<T>> {
        let found = self.items.get_mut(name)?;
        if let Some(first) = found.first() {
            println!("sold {} of {}: '{'", count, first);
        }
        match found.len() {
            0 => None,
            n @ 1..=9 if n < count => Some(found.drain(..).collect()),
            _ => {
                let (left, right) = found.split_at(count);
                Some(left.to_vec())
            }
        }
    }
}

/** Sums them. */
pub async fn sum(values: &[u64]) -> u64 {
    fn inner<const N: usize>(x: [u8; N]) -> char {
        '}'
    }
    let mut total = 0;
    for value in values.iter().filter(|v| **v > 1) {
        total += value;
    }
    while total > 100 {
        total -= 1;
    }
    total
}

macro_rules! twice {
    ($x:expr) => {
        $x * 2
    };
}
""",
        {"new": "Makes an empty one", "sell": None, "sum": "Sums them", "inner": None},
    ),
    "c": (
        """\
#include <stdio.h>
#define LIMIT 10
#define MAX(a, b) \\
    ((a) > (b) ? (a) : (b))

typedef struct node {
    int value;
    struct node *next;
    unsigned flag : 1;
} node_t;

enum colour { RED, GREEN = 2 };

static int (*handler)(int, char **);

/** Adds a value. */
static node_t *
push(node_t *list, int value)
{
    node_t *made = malloc(sizeof *made), *other = NULL;

    if (!made)
        goto fail;
    made->value = value;
    made->next = list;
#ifdef DEBUG
    printf("pushed %d {\\n", value);
#endif
    return made;
fail:
    return other;
}

/**
 * @brief Sums a list.
 */
int sum(const node_t *list) {
    int total = 0, counts[LIMIT] = {0, [3] = 1};
    for (; list; list = list->next) {
        switch (list->value) {
        case 0:
        case '}':
            continue;
        default:
            total += MAX(list->value, 0);
        }
    }
    do {
        total--;
    } while (total > 100 && counts[0]);
    return total;
}
""",
        {"push": "Adds a value", "sum": "Sums a list"},
    ),
    "cpp": (
        """\
#include <vector>

namespace shop {

using Names = std::vector<std::string>;

/// A shop.
template <typename T>
class Shop : public Base<T> {
public:
    /// Opens it.
    explicit Shop(int size) : size_(size), items_{} {
        items_.reserve(size);
    }
    ~Shop() override = default;

    /** How many there are. */
    int size() const noexcept { return size_; }

    bool operator==(const Shop& other) const {
        return size_ == other.size_;
    }

private:
    int size_;
    std::vector<T> items_;
};

//! Sums them.
template <typename T, int N = 3>
auto sum(const Shop<T>& shop) -> T {
    T total{};
    for (const auto& [name, item] : shop) {
        total += static_cast<T>(item);
    }
    auto add = [&total](T more) { total += more; };
    try {
        add(N);
    } catch (const std::exception& error) {
        std::cerr << "failed: {" << error.what() << '\\n';
    }
    return total;
}

int Other::method(Names names) {
    if (names.empty()) {
        return -1;
    } else {
        delete names_;
    }
    return names.size() > 1 ? 2 : 3;
}

}  // namespace shop
""",
        {
            "Shop": "Opens it",
            "size": "How many there are",
            "operator==": None,
            "sum": "Sums them",
            "add": None,
            "Other::method": None,
        },
    ),
    "csharp": (
        """\
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
""",
        {
            "Shop": "<summary>",
            "~Shop": None,
            "operator +": "Adds two",
            "Sum": None,
            "Twice": None,
            "Count": "Says how many",
        },
    ),
    "ruby": (
        """\
# frozen_string_literal: true

require "json"

module Shop
  LIMIT = 10

  # A shop.
  class Store < Base
    include Enumerable
    attr_reader :items, :name

    # Opens it.
    #
    # @param name [String] how it is called
    # @return [void]
    def initialize(name, *rest, open: false, **options, &block)
      super(name)
      @items, @open = [], open
      @name = "#{name} of #{rest.join(', ')}"
      options.each_pair { |key, value| send("#{key}=", value) }
    end

    # Counts the words.
    private def count(text)
      words = Hash.new(0)
      text.scan(/[a-z{]+/i) do |word|
        next if word.empty?
        words[word] += 1
      end
      words
    rescue ArgumentError, TypeError => e
      warn "failed: #{e.message} {"
    ensure
      @open = true
    end

    def empty? = items.none?

    # rubocop:disable Style/For
    def total(currency)
      sum = 0
      for item in items
        unless item.in?(currency)
          redo if item.broken?
        else
          sum += item.price * (item.fresh? ? 1 : 2)
        end
      end
      while sum > 100
        sum -= 1
      end
      case [sum, currency]
      in [Integer => number, *] if number > 3
        number
      else
        [
          sum,
          %w(a b),
        ].first
      end
    end

    class << self
      # Makes one.
      def build(**options)
        new(options.fetch(:name) { "shop" }, **options)
      end
    end
  end
end

# Sums them.
def sum(values)
  values.map { |value| value.to_i }.reduce(0) do |total, value|
    total + value
  end
end
""",
        {
            "initialize": "Opens it",
            "count": "Counts the words",
            "empty?": None,
            "total": None,
            "build": "Makes one",
            "sum": "Sums them",
        },
    ),
    "php": (
        """\
<?php

declare(strict_types=1);

namespace App\\Shop;

use App\\Base\\Item as Thing;
use function App\\Base\\price;

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
final class Shop extends Base implements \\Countable
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
        } catch (\\RuntimeException | IOException $error) {
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
""",
        {
            "add": "Adds them",
            "__construct": "Opens it",
            "load": None,
            "count": "Counts them",
            "$check": None,
            "label": None,
        },
    ),
}
