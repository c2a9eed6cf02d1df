// SPDX-License-Identifier: Apache-2.0
// The parser of --fields.
#include "Fields.h"

#include "autopar/Base/TextCursor.h"

#include <cctype>
#include <charconv>
#include <cstring>

namespace autopar::runtime {
namespace {

class Parser {
public:
  explicit Parser(const std::string &text) : text(text), cursor(text) {}

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
    if (!cursor.isAtEnd())
      return wrong("',' or the end");
    return fields;
  }

private:
  bool take(char c) { return cursor.accept(c); }
  bool word(std::string &out) {
    out = cursor.word([](char c) { return !std::isspace(uint8_t(c)) && !std::strchr("=[],", c); });
    return !out.empty();
  }
  /// Absent numbers are zero.
  bool number(int64_t &out) {
    std::string digits = cursor.word([](char c) { return std::isdigit(uint8_t(c)); });
    out = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return out <= 10'000'000'000 && digits.size() <= 18;
  }
  Status wrong(const std::string &expected) const {
    return {StatusCode::Usage, "fields: expected " + expected + " at character " +
                                   std::to_string(cursor.at + 1) + "\n  " + text + "\n  " +
                                   std::string(cursor.at, ' ') + "^"};
  }

  const std::string &text;
  TextCursor cursor;
};

} // namespace

Result<std::vector<Field>> parseFields(const std::string &text) { return Parser(text).run(); }

} // namespace autopar::runtime
