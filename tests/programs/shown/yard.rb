# Prints, as a line of JSON each, what YARD has of every method.  ruby yard.rb < LIST_OF_FILES
require "json"
require "yard"

YARD::Logger.instance.level = YARD::Logger::FATAL
$stdin.each_line(chomp: true) do |file|
  YARD::Registry.clear
  YARD.parse(file)
  YARD::Registry.all(:method).each do |method|
    next if method.is_alias? || method.is_attribute? || method.line.nil?
    puts JSON.generate(file: file, row: method.line - 1, name: method.name, text: method.docstring.all.to_s,
                       empty: method.source.to_s.gsub(/#.*/, "").match?(/\Adef [^;\s(]+ *(\([^)]*\))?[;\s]*end\s*\z/))
  end
end
