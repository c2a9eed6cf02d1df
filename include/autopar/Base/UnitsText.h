// SPDX-License-Identifier: Apache-2.0
// Times, sizes and shares as people read them: three digits.
#pragma once

#include <cstdint>
#include <string>

namespace autopar {

/// "1.16 s", "32.1 ms", "840 us"
std::string timeText(double us);
/// "75.9 GiB", "512 MiB", "1.50 KiB"
std::string bytesText(int64_t bytes);
/// "76.1 GiB (81711752806 bytes)", where the number is one to go on with.
std::string exactBytesText(int64_t bytes);
/// "8 %", "0.4 %"
std::string percentText(double part);

} // namespace autopar
