// SPDX-License-Identifier: Apache-2.0
// State in host memory comes to the device in groups: what programs do and predictions count on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace autopar {

/// A group is full with so many bytes, of `all` that lie in host memory. 128 MiB are a few
/// milliseconds of a link: copies of much less spend their time on beginning. One part in 32 at
/// most, so that work on one group covers copies of others.
inline int64_t mostHostGroupBytes(int64_t all) { return std::min(int64_t(128) << 20, all / 32); }

/// So many groups ahead of the one that is worked on come. Groups are unequal: one alone would
/// often be there long before or long after the work on the one before has ended.
inline constexpr size_t kHostGroupsAhead = 2;

} // namespace autopar
