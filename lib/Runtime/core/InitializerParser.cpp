// SPDX-License-Identifier: Apache-2.0
// "*.bias=zeros, *=normal(0.02), seed=7".
#include "InitializerParser.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace autopar::runtime {
namespace {

using Numbers = std::vector<double>;

constexpr const char *kKinds =
    "zeros, ones, constant(value), normal(deviation, mean), uniform(limit) or "
    "uniform(least, most), xavier_uniform(gain), xavier_normal(gain), "
    "kaiming_uniform(gain), kaiming_normal(gain)";

} // namespace

Status InitializerParser::wrong(const std::string &expected) const {
  return {StatusCode::Usage, "initializer: expected " + expected + " at character " +
                                 std::to_string(at + 1) + "\n  " + text + "\n  " +
                                 std::string(at, ' ') + "^"};
}

std::string InitializerParser::word() {
  return TextCursor::word(
      [](char c) { return !std::isspace(uint8_t(c)) && !std::strchr("=(),", c); });
}

Status InitializerParser::number(double &value) {
  skipSpace();
  const char *begin = text.c_str() + at;
  char *end = nullptr;
  value = std::strtod(begin, &end);
  if (end == begin || !std::isfinite(value))
    return wrong("a number");
  at += size_t(end - begin);
  return Status::ok();
}

Status InitializerParser::arguments(Arguments &given) {
  if (!accept('(') || accept(')'))
    return Status::ok();
  do {
    skipSpace();
    double value = 0;
    if (text.compare(at, 2, "in") == 0) {
      at += 2;
      if (!accept('='))
        return wrong("'='");
      AUTOPAR_RETURN_IF_ERROR(number(value));
      given.inputDim = value;
    } else {
      AUTOPAR_RETURN_IF_ERROR(number(value));
      given.numbers.push_back(value);
    }
  } while (accept(','));
  return accept(')') ? Status::ok() : wrong("',' or ')'");
}

Status InitializerParser::rule(Initializer::Rule &rule, size_t begin, const std::string &kind) {
  using Rule = Initializer::Rule;
  struct Row {
    const char *word;
    Rule::Kind kind;
    Rule::Fan fan;
    size_t least, most; ///< numbers that it takes
  };
  static constexpr Row rows[] = {
      {"zeros", Rule::Kind::Constant, Rule::Fan::None, 0, 0},
      {"ones", Rule::Kind::Constant, Rule::Fan::None, 0, 0},
      {"constant", Rule::Kind::Constant, Rule::Fan::None, 1, 1},
      {"normal", Rule::Kind::Normal, Rule::Fan::None, 1, 2},
      {"uniform", Rule::Kind::Uniform, Rule::Fan::None, 1, 2},
      {"xavier_uniform", Rule::Kind::Uniform, Rule::Fan::Xavier, 0, 1},
      {"xavier_normal", Rule::Kind::Normal, Rule::Fan::Xavier, 0, 1},
      {"kaiming_uniform", Rule::Kind::Uniform, Rule::Fan::Kaiming, 0, 1},
      {"kaiming_normal", Rule::Kind::Normal, Rule::Fan::Kaiming, 0, 1},
  };
  const Row *found = nullptr;
  for (const Row &row : rows)
    if (kind == row.word)
      found = &row;
  if (!found) {
    at = begin;
    return wrong(kKinds);
  }
  Arguments given;
  AUTOPAR_RETURN_IF_ERROR(arguments(given));
  const Numbers &numbers = given.numbers;
  bool fits = numbers.size() >= found->least && numbers.size() <= found->most;
  bool fitsDim = !given.inputDim ||
                 (found->fan != Rule::Fan::None && (*given.inputDim == 0 || *given.inputDim == 1));
  if (!fits || !fitsDim) {
    at = begin;
    return wrong(std::string("other arguments: ") + kKinds +
                 "; in=0 where the first dimension of a weight counts its inputs, not the second");
  }
  rule.kind = found->kind;
  rule.fan = found->fan;
  rule.inputDim = int64_t(given.inputDim.value_or(1));
  if (found->fan != Rule::Fan::None)
    rule.a = !numbers.empty() ? numbers[0] : found->fan == Rule::Fan::Kaiming ? std::sqrt(2.0) : 1;
  else if (found->kind == Rule::Kind::Constant)
    rule.a = numbers.empty() ? double(kind == "ones") : numbers[0];
  else if (found->kind == Rule::Kind::Normal)
    rule.a = numbers.size() > 1 ? numbers[1] : 0, rule.b = numbers[0];
  else
    rule.a = numbers.size() > 1 ? numbers[0] : -numbers[0], rule.b = numbers.back();
  bool isWide = found->fan != Rule::Fan::None     ? rule.a >= 0
                : rule.kind == Rule::Kind::Normal ? rule.b >= 0
                                                  : rule.b >= rule.a;
  if (found->kind != Rule::Kind::Constant && !isWide) {
    at = begin;
    return wrong(
        "a deviation, limit or gain that is not negative, and uniform(least, most) in this order,");
  }
  rule.text = text.substr(begin, at - begin);
  return Status::ok();
}

Status InitializerParser::item(Initializer &result) {
  skipSpace();
  size_t begin = at;
  std::string first = word();
  if (first.empty())
    return wrong("a pattern of names, or one of " + std::string(kKinds));
  if (!accept('=')) {
    result.rules.emplace_back();
    return rule(result.rules.back(), begin, first);
  }
  skipSpace();
  if (first == "seed") {
    const char *digits = text.c_str() + at;
    char *end = nullptr;
    if (!std::isdigit(uint8_t(*digits)))
      return wrong("a whole number");
    result.seed = std::strtoull(digits, &end, 10);
    at += size_t(end - digits);
    return Status::ok();
  }
  begin = at;
  result.rules.emplace_back();
  result.rules.back().pattern = first;
  return rule(result.rules.back(), begin, word());
}

Result<Initializer> InitializerParser::run() {
  Initializer result;
  do {
    AUTOPAR_RETURN_IF_ERROR(item(result));
  } while (accept(','));
  if (!isAtEnd())
    return wrong("',' or the end");
  if (result.rules.empty())
    return wrong(std::string("one of ") + kKinds);
  return result;
}

} // namespace autopar::runtime
