// SPDX-License-Identifier: Apache-2.0
// A module's text: its directives, variables and kernels.
#include "Decoder.h"

namespace emulated {
namespace {

/// ".align 4 .b8 name[16]": what declarations of variables have in common.
struct Declaration {
  std::string type, name;
  uint64_t alignment = 1, count = 1;
  bool isOpen = false; ///< "[]"
  std::vector<uint64_t> values;

  uint64_t elementBytes() const { return bytesOf(typeOf(type)); }
  uint64_t bytes() const { return count * elementBytes(); }
};

class Parser {
public:
  Parser(std::string_view text, PtxModule &module, uint64_t (*allocate)(uint64_t))
      : tokens(tokenizePtx(text)), module(module), allocate(allocate) {
    for (size_t begin = 0; begin <= text.size();) {
      size_t end = std::min(text.find('\n', begin), text.size());
      module.lines.emplace_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    tokens.push_back({"", 0});
  }

  void run() {
    while (!at("")) {
      const std::string &word = tokens[i].text;
      if (word == ".version") {
        ++i;
        std::string number = take();
        module.versionMajor = std::stoi(number);
        module.versionMinor = std::stoi(number.substr(number.find('.') + 1));
      } else if (word == ".target") {
        ++i;
        std::string chip = take();
        module.chip = std::stoi(chip.substr(chip.find('_') + 1));
        while (at(","))
          i += 2;
      } else if (word == ".address_size") {
        i += 2;
      } else if (word == ".file") {
        skipLine();
      } else if (word == ".section") {
        while (!at("}"))
          ++i;
        ++i;
      } else if (word == ".visible" || word == ".extern" || word == ".weak" || word == ".common") {
        ++i;
      } else if (word == ".entry") {
        ++i;
        parseKernel();
      } else if (word == ".global" || word == ".const") {
        parseVariable();
      } else if (word == ".shared") {
        ++i;
        sharedVariables.push_back(parseDeclaration());
        expect(";");
      } else {
        fail("the emulated GPU does not know the directive " + word);
      }
    }
  }

private:
  std::vector<Token> tokens;
  size_t i = 0;
  PtxModule &module;
  uint64_t (*allocate)(uint64_t);
  std::vector<Declaration> sharedVariables;

  [[noreturn]] void fail(const std::string &what) const {
    throw std::runtime_error("line " + std::to_string(tokens[i].line) + ": " + what);
  }
  bool at(const char *text) const { return tokens[i].text == text; }
  std::string take() { return tokens[i++].text; }
  void expect(const char *text) {
    if (!at(text))
      fail(std::string("expected '") + text + "', found '" + tokens[i].text + "'");
    ++i;
  }
  void skipLine() {
    for (uint32_t line = tokens[i].line; tokens[i].line == line;)
      ++i;
  }
  uint64_t number() {
    uint64_t value = 0;
    if (!parseNumber(tokens[i].text, value))
      fail("expected a number, found '" + tokens[i].text + "'");
    ++i;
    return value;
  }

  Declaration parseDeclaration() {
    Declaration d;
    while (tokens[i].text[0] == '.') {
      std::string word = take();
      if (word == ".align")
        d.alignment = number();
      else if (typeOf(word.substr(1)) != NumberType::Unknown)
        d.type = word.substr(1);
      else if (word != ".ptr" && word != ".attribute" && word != ".v2" && word != ".v4" &&
               word != ".global")
        fail("the emulated GPU does not know " + word + " of variables");
    }
    d.name = take();
    while (at("[")) {
      ++i;
      d.isOpen = at("]");
      if (!d.isOpen)
        d.count *= number();
      expect("]");
    }
    d.alignment = std::max(d.alignment, d.elementBytes());
    if (!at("="))
      return d;
    ++i;
    bool isList = at("{");
    i += isList;
    while (true) {
      uint64_t sign = 1;
      if (at("-")) {
        sign = ~uint64_t{0};
        ++i;
      }
      d.values.push_back(number() * sign);
      if (!isList || !at(","))
        break;
      ++i;
    }
    if (isList)
      expect("}");
    return d;
  }

  void parseVariable() {
    ++i;
    Declaration d = parseDeclaration();
    expect(";");
    Variable variable;
    variable.bytes = d.bytes();
    variable.initial.assign(size_t(variable.bytes), 0);
    for (size_t v = 0; v < d.values.size(); ++v)
      std::memcpy(variable.initial.data() + v * d.elementBytes(), &d.values[v],
                  size_t(d.elementBytes()));
    variable.address = allocate(std::max<uint64_t>(variable.bytes, 1));
    module.variables[d.name] = std::move(variable);
  }

  void parseKernel() {
    Kernel kernel;
    kernel.name = take();
    Decoder decoder(module, kernel);
    if (at("(")) {
      ++i;
      while (!at(")")) {
        if (take() != ".param")
          fail("expected a parameter");
        Declaration d;
        while (tokens[i].text[0] == '.') {
          std::string word = take();
          if (word == ".align")
            d.alignment = number();
          else if (typeOf(word.substr(1)) != NumberType::Unknown)
            d.type = word.substr(1);
        }
        d.name = take();
        if (at("["))
          fail("parameters that are arrays are not known");
        decoder.addParameter(d.name, uint32_t(bytesOf(typeOf(d.type))));
        if (at(","))
          ++i;
      }
      ++i;
    }
    while (!at("{")) {
      std::string word = take();
      uint32_t product = 1;
      uint64_t value = 0;
      while (parseNumber(tokens[i].text, value) || at(",")) {
        product *= at(",") ? 1 : uint32_t(value);
        ++i;
      }
      if (word == ".maxntid" || word == ".reqntid")
        kernel.mostThreads = product;
      if (word == ".reqntid")
        kernel.requiredThreads = product;
    }
    for (const Declaration &shared : sharedVariables)
      decoder.addShared(shared.name, shared.bytes(), shared.alignment, shared.isOpen);
    ++i;
    for (int depth = 1; depth > 0;)
      parseInBody(decoder, depth);
    decoder.finish();
    std::string name = kernel.name;
    module.kernels[name] = std::move(kernel);
  }

  void parseInBody(Decoder &decoder, int &depth) {
    const std::string word = tokens[i].text;
    if (word == "{" || word == "}") {
      depth += word == "{" ? 1 : -1;
      ++i;
    } else if (word == ".reg") {
      ++i;
      std::string type = take().substr(1);
      while (true) {
        std::string name = take();
        uint32_t count = 0;
        if (at("<")) {
          ++i;
          count = uint32_t(number());
          expect(">");
        }
        decoder.addRegisters(type, name, count);
        if (!at(","))
          break;
        ++i;
      }
      expect(";");
    } else if (word == ".shared" || word == ".local") {
      ++i;
      Declaration d = parseDeclaration();
      expect(";");
      word == ".shared" ? decoder.addShared(d.name, d.bytes(), d.alignment, d.isOpen)
                        : decoder.addLocal(d.name, d.bytes(), d.alignment);
    } else if (word == ".loc") {
      skipLine();
    } else if (word == ".pragma") {
      while (!at(";"))
        ++i;
      ++i;
    } else if (tokens[i + 1].text == ":") {
      decoder.addLabel(word);
      i += 2;
    } else {
      decoder.add(parseStatement(tokens, i));
    }
    if (depth > 0 && at(""))
      fail("a kernel without an end");
  }
};

} // namespace

PtxModule decodePtx(std::string_view text, uint64_t (*allocate)(uint64_t bytes)) {
  PtxModule module;
  Parser(text, module, allocate).run();
  return module;
}

} // namespace emulated
