// SPDX-License-Identifier: Apache-2.0
// The digest used everywhere in artifacts and checkpoints: XXH3, 128 bits. It proves integrity, not
// trust.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace autopar {

/// XXH3-128 of a byte range, in the canonical (big-endian) byte order.
struct Digest {
  std::array<uint8_t, 16> bytes{};

  static Digest of(const void *data, size_t size);
  /// 32 lower-case hexadecimal digits.
  std::string hex() const;
  bool operator==(const Digest &) const = default;
};

} // namespace autopar
