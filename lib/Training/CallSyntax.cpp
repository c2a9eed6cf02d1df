// SPDX-License-Identifier: Apache-2.0
// A recursive-free parser: names, numbers, and what separates them.
#include "autopar/Training/CallSyntax.h"

#include "autopar/Base/TextCursor.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

using namespace autopar;

static bool belongsToWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("_./:-+").find(c) != std::string_view::npos;
}

Status Call::errorAt(size_t position, const std::string &message) const {
  return error(message + " at character " + std::to_string(position + 1));
}

Status Call::error(const std::string &message) const {
  return Status::badInput(what + " \"" + text + "\": " + message);
}

Result<Call> Call::parse(const std::string &what, const std::string &text) {
  Call call;
  call.what = what;
  call.text = text;
  TextCursor cursor(call.text);
  cursor.skipSpace();
  call.namePosition = cursor.at;
  call.name = cursor.word(belongsToWord);
  if (call.name.empty())
    return call.errorAt(cursor.at, "expected a name");
  if (cursor.accept('(') && !cursor.accept(')')) {
    while (true) {
      cursor.skipSpace();
      size_t begin = cursor.at;
      std::string word = cursor.word(belongsToWord);
      if (word.empty())
        return call.errorAt(cursor.at, "expected a name");
      if (cursor.accept('=')) {
        cursor.skipSpace();
        size_t valueAt = cursor.at;
        std::string value = cursor.word(belongsToWord);
        char *end = nullptr;
        double number = value == "true"    ? 1
                        : value == "false" ? 0
                                           : std::strtod(value.c_str(), &end);
        if (value.empty() || (end && *end))
          return call.errorAt(valueAt, "expected a number");
        if (!call.options.emplace(word, Option{number, begin}).second)
          return call.errorAt(begin, "\"" + word + "\" is given twice");
      } else {
        call.arguments.push_back(word);
      }
      if (cursor.accept(')'))
        break;
      if (!cursor.accept(','))
        return call.errorAt(cursor.at, "expected ',' or ')'");
    }
  }
  if (!cursor.isAtEnd())
    return call.errorAt(cursor.at, "expected nothing more");
  return call;
}

double Call::take(const std::string &key, double fallback) {
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
