// SPDX-License-Identifier: Apache-2.0
// A recursive-free parser: names, numbers, and what separates them.
#include "autopar/Training/CallSyntax.h"

#include "autopar/Base/TextCursor.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>

using namespace autopar;

static bool belongsToWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("_./:-+").find(c) != std::string_view::npos;
}

static std::optional<double> numberIn(const std::string &word) {
  char *end = nullptr;
  double number = std::strtod(word.c_str(), &end);
  return word.empty() || *end ? std::nullopt : std::optional(number);
}

Status Call::errorAt(size_t position, const std::string &message) const {
  return error(message + " at character " + std::to_string(position + 1));
}

Status Call::error(const std::string &message) const {
  return Status::badInput(what + " \"" + text + "\": " + message);
}

/// From its name to its closing parenthesis.
Status Call::parseFrom(TextCursor &cursor) {
  if (name.empty())
    return errorAt(cursor.at, "expected a name");
  if (!cursor.accept('(') || cursor.accept(')'))
    return Status::ok();
  while (true) {
    cursor.skipSpace();
    size_t begin = cursor.at;
    std::string word = cursor.word(belongsToWord);
    if (word.empty())
      return errorAt(cursor.at, "expected a name");
    if (cursor.accept('=')) {
      cursor.skipSpace();
      size_t valueAt = cursor.at;
      std::string value = cursor.word(belongsToWord);
      std::optional<double> number = value == "true" ? 1 : value == "false" ? 0 : numberIn(value);
      if (!number)
        return errorAt(valueAt, "expected a number");
      if (!options.emplace(word, Option{*number, begin}).second)
        return errorAt(begin, "\"" + word + "\" is given twice");
    } else {
      arguments.push_back(word);
    }
    if (cursor.accept(')'))
      return Status::ok();
    if (!cursor.accept(','))
      return errorAt(cursor.at, "expected ',' or ')'");
  }
}

Result<Call> Call::parse(const std::string &what, const std::string &text) {
  Call call;
  call.what = what;
  call.text = text;
  TextCursor cursor(text);
  cursor.skipSpace();
  call.namePosition = cursor.at;
  call.name = cursor.word(belongsToWord);
  AUTOPAR_RETURN_IF_ERROR(call.parseFrom(cursor));
  if (!cursor.isAtEnd())
    return call.errorAt(cursor.at, "expected nothing more");
  return call;
}

Result<std::vector<WeightedCall>> Call::parseSum(const std::string &what, const std::string &text) {
  auto belongsToTerm = [](char c) { return c != '+' && belongsToWord(c); };
  std::vector<WeightedCall> terms;
  TextCursor cursor(text);
  do {
    WeightedCall term;
    Call &call = term.call;
    call.what = what;
    call.text = text;
    cursor.skipSpace();
    call.namePosition = cursor.at;
    call.name = cursor.word(belongsToTerm);
    if (cursor.accept('*')) {
      std::optional<double> factor = numberIn(call.name);
      if (!factor || *factor == 0 || !std::isfinite(*factor))
        return call.errorAt(call.namePosition, "expected a number other than 0 in front of '*'");
      term.factor = *factor;
      cursor.skipSpace();
      call.namePosition = cursor.at;
      call.name = cursor.word(belongsToTerm);
    }
    AUTOPAR_RETURN_IF_ERROR(call.parseFrom(cursor));
    terms.push_back(std::move(term));
  } while (cursor.accept('+'));
  if (!cursor.isAtEnd())
    return terms.back().call.errorAt(cursor.at, "expected '+' or nothing more");
  return terms;
}

double Call::take(const std::string &key, double fallback) {
  if (std::find(taken.begin(), taken.end(), key) == taken.end())
    taken.push_back(key);
  auto it = options.find(key);
  return it == options.end() ? fallback : it->second.number;
}

Status Call::checkAllTaken() const {
  for (const auto &[key, option] : options)
    if (std::find(taken.begin(), taken.end(), key) == taken.end()) {
      std::string known;
      for (const std::string &name : taken)
        known += (known.empty() ? "" : ", ") + name;
      return errorAt(option.position, "unknown option \"" + key + "\"; " + name + " takes " +
                                          (known.empty() ? "none" : known));
    }
  return Status::ok();
}
