// SPDX-License-Identifier: Apache-2.0
// A place in a short text (an option, a demand, a formula): the parsers of what people type on
// command lines step over it and know at which character they stopped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace autopar {

/// The text has to outlive it.
class TextCursor {
public:
  explicit TextCursor(std::string_view text) : text(text) {}

  size_t at = 0; ///< the next character

  void skipSpace();
  /// Whether only space is left.
  bool isAtEnd();
  /// Steps over space and `c`, if `c` comes next.
  bool accept(char c);
  bool acceptWord(std::string_view word);

  /// Steps over space and all characters from there on for which `belongs(character)`; may be
  /// empty.
  template <typename Belongs>
  std::string word(Belongs belongs) {
    skipSpace();
    size_t begin = at;
    while (at < text.size() && belongs(text[at]))
      ++at;
    return std::string(text.substr(begin, at - begin));
  }

private:
  std::string_view text;
};

} // namespace autopar
