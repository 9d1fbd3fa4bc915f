# Prints, as a line of JSON each, what RDoc has of every method.  ruby rdoc.rb < LIST_OF_FILES
require "json"
require "rdoc"

$stdin.each_line(chomp: true) do |file|
  rdoc = RDoc::RDoc.new
  rdoc.options = options = RDoc::Options.new
  rdoc.store = store = RDoc::Store.new
  stats = RDoc::Stats.new(store, 1, 0)
  content = RDoc::Encoding.read_file(file, Encoding::UTF_8) or next
  top = store.add_file(file, parser: RDoc::Parser::Ruby)
  begin
    RDoc::Parser::Ruby.new(top, file, content, options, stats).scan
  rescue StandardError => e
    warn "#{file}: #{e.message}"
  end
  store.all_classes_and_modules.flat_map(&:method_list).each do |method|
    # Aliases are no definitions; `initialize` is called `new`.
    definition = content.lines[(method.line || 0) - 1][/\bdef\s+([\w.]+[?!=]?)/, 1] or next
    next unless ["initialize", method.name].include?(definition.split(".").last)
    name = definition == "initialize" ? definition : method.name
    text = method.comment.respond_to?(:text) ? method.comment.text : method.comment
    puts JSON.generate(file: file, row: method.line - 1, name: name, text: text.to_s)
  end
end
