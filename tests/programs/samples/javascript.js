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
