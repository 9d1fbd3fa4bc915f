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
