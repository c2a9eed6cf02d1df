// SPDX-License-Identifier: Apache-2.0
// The parser of --fields.
#include "Fields.h"

#include <cctype>
#include <cstring>

namespace autopar::runtime {
namespace {

class Parser {
public:
  explicit Parser(const std::string &text) : text(text) {}

  Result<std::vector<Field>> run() {
    std::vector<Field> fields;
    do {
      Field field;
      if (!word(field.input))
        return wrong("the name of an input");
      if (!take('='))
        return wrong("'='");
      if (!word(field.array))
        return wrong("the name of an array");
      if (take('[')) {
        field.isWindow = true;
        if (!number(field.dropFirst))
          return wrong("a number of places to leave out, or ':'");
        if (!take(':'))
          return wrong("':'");
        bool isNegative = take('-');
        if (!number(field.dropLast) || (!isNegative && field.dropLast > 0))
          return wrong("a negative number of places to leave out at the end, or ']'");
        if (!take(']'))
          return wrong("']'");
      }
      fields.push_back(std::move(field));
    } while (take(','));
    skip();
    if (at != text.size())
      return wrong("',' or the end");
    return fields;
  }

private:
  void skip() {
    while (at < text.size() && std::isspace(uint8_t(text[at])))
      ++at;
  }
  bool take(char c) {
    skip();
    if (at == text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  bool word(std::string &out) {
    skip();
    size_t begin = at;
    while (at < text.size() && !std::isspace(uint8_t(text[at])) && !std::strchr("=[],", text[at]))
      ++at;
    out = text.substr(begin, at - begin);
    return !out.empty();
  }
  /// Absent numbers are zero.
  bool number(int64_t &out) {
    skip();
    out = 0;
    for (; at < text.size() && std::isdigit(uint8_t(text[at])); ++at) {
      if (out > 1'000'000'000)
        return false;
      out = out * 10 + (text[at] - '0');
    }
    return true;
  }
  Status wrong(const std::string &expected) const {
    return {StatusCode::Usage, "fields: expected " + expected + " at character " +
                                   std::to_string(at + 1) + "\n  " + text + "\n  " +
                                   std::string(at, ' ') + "^"};
  }

  const std::string &text;
  size_t at = 0;
};

} // namespace

Result<std::vector<Field>> parseFields(const std::string &text) { return Parser(text).run(); }

} // namespace autopar::runtime
