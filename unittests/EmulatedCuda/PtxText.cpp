// SPDX-License-Identifier: Apache-2.0
// Characters to tokens, tokens to statements.
#include "PtxText.h"

#include <cctype>
#include <cstdlib>
#include <stdexcept>

namespace emulated {
namespace {

bool isWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

[[noreturn]] void fail(uint32_t line, const std::string &what) {
  throw std::runtime_error("line " + std::to_string(line) + ": " + what);
}

} // namespace

std::vector<Token> tokenizePtx(std::string_view text) {
  std::vector<Token> tokens;
  uint32_t line = 1;
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    if (c == '\n') {
      ++line;
      ++i;
    } else if (std::isspace(static_cast<unsigned char>(c)) || c == '\0') {
      ++i;
    } else if (c == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      while (i < text.size() && text[i] != '\n')
        ++i;
    } else if (c == '/' && i + 1 < text.size() && text[i + 1] == '*') {
      for (i += 2; i + 1 < text.size() && !(text[i] == '*' && text[i + 1] == '/'); ++i)
        line += text[i] == '\n';
      i += 2;
    } else if (c == '"') {
      size_t end = text.find('"', i + 1);
      if (end == std::string_view::npos)
        fail(line, "a string without an end");
      tokens.push_back({std::string(text.substr(i, end + 1 - i)), line});
      i = end + 1;
    } else if (isWordCharacter(c)) {
      size_t end = i;
      while (end < text.size() &&
             (isWordCharacter(text[end]) ||
              (text[end] == ':' && end + 1 < text.size() && text[end + 1] == ':') ||
              (text[end] == ':' && end > i && text[end - 1] == ':')))
        ++end;
      tokens.push_back({std::string(text.substr(i, end - i)), line});
      i = end;
    } else {
      tokens.push_back({std::string(1, c), line});
      ++i;
    }
  }
  return tokens;
}

bool parseNumber(const std::string &text, uint64_t &bits) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0])))
    return false;
  bool isHexFloat = text.size() > 2 && text[0] == '0' &&
                    (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D');
  char *end = nullptr;
  bits =
      isHexFloat ? std::strtoull(text.c_str() + 2, &end, 16) : std::strtoull(text.c_str(), &end, 0);
  return *end == 0 || *end == 'U';
}

namespace {

Operand parseOperand(const std::vector<Token> &tokens, size_t &i) {
  Operand operand;
  const Token &token = tokens[i];
  if (token.text == "{") {
    operand.kind = Operand::Kind::Vector;
    for (++i; tokens[i].text != "}";) {
      operand.elements.push_back(parseOperand(tokens, i));
      if (tokens[i].text == ",")
        ++i;
    }
    ++i;
    return operand;
  }
  if (token.text == "[") {
    operand.kind = Operand::Kind::Address;
    int64_t sign = 1;
    for (++i; tokens[i].text != "]"; ++i) {
      uint64_t number = 0;
      if (tokens[i].text == "+" || tokens[i].text == "-")
        sign *= tokens[i].text == "-" ? -1 : 1;
      else if (parseNumber(tokens[i].text, number)) {
        operand.offset += sign * int64_t(number);
        sign = 1;
      } else {
        operand.name = tokens[i].text;
      }
    }
    ++i;
    return operand;
  }
  if (token.text == "!") {
    ++i;
    operand = parseOperand(tokens, i);
    operand.isNegated = true;
    return operand;
  }
  if (token.text == "-") {
    ++i;
    operand = parseOperand(tokens, i);
    if (operand.kind != Operand::Kind::Number)
      fail(token.line, "a minus before something that is no number");
    operand.bits = uint64_t(-int64_t(operand.bits));
    return operand;
  }
  if (parseNumber(token.text, operand.bits))
    operand.kind = Operand::Kind::Number;
  else
    operand.name = token.text;
  ++i;
  if (tokens[i].text == "|") {
    operand.second = tokens[i + 1].text;
    i += 2;
  }
  if (tokens[i].text == "+" && operand.kind == Operand::Kind::Name) {
    uint64_t number = 0;
    parseNumber(tokens[i + 1].text, number);
    operand.offset = int64_t(number);
    i += 2;
  }
  return operand;
}

} // namespace

Statement parseStatement(const std::vector<Token> &tokens, size_t &i) {
  Statement statement;
  statement.line = tokens[i].line;
  if (tokens[i].text == "@") {
    ++i;
    if (tokens[i].text == "!") {
      statement.isNegated = true;
      ++i;
    }
    statement.guard = tokens[i++].text;
  }
  std::string opcode = tokens[i++].text;
  for (size_t begin = 0; begin <= opcode.size();) {
    size_t dot = std::min(opcode.find('.', begin), opcode.size());
    statement.opcode.push_back(opcode.substr(begin, dot - begin));
    begin = dot + 1;
  }
  while (tokens[i].text != ";") {
    statement.operands.push_back(parseOperand(tokens, i));
    if (i >= tokens.size())
      fail(statement.line, "a statement without an end");
    if (tokens[i].text == ",")
      ++i;
    else if (tokens[i].text != ";")
      fail(statement.line, "'" + tokens[i].text + "' behind an operand");
  }
  ++i;
  return statement;
}

} // namespace emulated
