// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Base/TextCursor.h"

#include <cctype>

namespace autopar {

void TextCursor::skipSpace() {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])))
    ++at;
}

bool TextCursor::isAtEnd() {
  skipSpace();
  return at == text.size();
}

bool TextCursor::accept(char c) { return acceptWord({&c, 1}); }

bool TextCursor::acceptWord(std::string_view word) {
  skipSpace();
  if (text.substr(at, word.size()) != word)
    return false;
  at += word.size();
  return true;
}

} // namespace autopar
