// SPDX-License-Identifier: Apache-2.0
// Digest through libxxhash, inlined so that no shared library is needed.
#include "autopar/Base/Digest.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace autopar {

Digest Digest::of(const void *data, size_t size) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
  Digest digest;
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), digest.bytes.begin());
  return digest;
}

std::string Digest::hex() const {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

} // namespace autopar
