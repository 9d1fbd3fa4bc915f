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
