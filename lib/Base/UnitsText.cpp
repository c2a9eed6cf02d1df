// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Base/UnitsText.h"

#include <cstdio>

namespace autopar {
namespace {

/// Three digits.
std::string digits(double value) {
  char text[40];
  int behind = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f", behind, value);
  return text;
}

} // namespace

std::string timeText(double us) {
  return us >= 1e6   ? digits(us / 1e6) + " s"
         : us >= 1e3 ? digits(us / 1e3) + " ms"
                     : digits(us) + " us";
}

std::string bytesText(int64_t count) {
  const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  double bytes = static_cast<double>(count);
  size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit)
    bytes /= 1024;
  return (unit == 0 ? std::to_string(count) : digits(bytes)) + units[unit];
}

std::string percentText(double part) {
  char text[40];
  std::snprintf(text, sizeof text, part < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * part);
  return text;
}

std::string exactBytesText(int64_t bytes) {
  return bytesText(bytes) + " (" + std::to_string(bytes) + " bytes)";
}

} // namespace autopar
