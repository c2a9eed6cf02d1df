// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Base/Utf8.h"

namespace autopar {
namespace {

bool isContinuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

/// Bytes of the character that the text begins with; 0: it begins with none.
size_t characterBytes(std::string_view text) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = at(0);
  if (first < 0x80)
    return 1;
  size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes)
    return 0;
  for (size_t i = 1; i < bytes; ++i)
    if (!isContinuation(at(i)))
      return 0;
  unsigned char second = at(1);
  bool isLonger = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  bool isSurrogate = first == 0xed && second >= 0xa0;
  bool isTooLarge = first == 0xf4 && second >= 0x90;
  return isLonger || isSurrogate || isTooLarge ? 0 : bytes;
}

} // namespace

bool isUtf8(std::string_view text) {
  while (!text.empty()) {
    size_t bytes = characterBytes(text);
    if (bytes == 0)
      return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string escapedToUtf8(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string escaped;
  while (!text.empty()) {
    size_t bytes = characterBytes(text);
    auto first = static_cast<unsigned char>(text[0]);
    if (bytes == 0)
      escaped += {'\\', 'x', digits[first >> 4], digits[first & 15]};
    else
      escaped += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return escaped;
}

} // namespace autopar
