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
        std::cerr << "failed: {" << error.what() << '\n';
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
