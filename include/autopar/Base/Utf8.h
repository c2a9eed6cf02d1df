// SPDX-License-Identifier: Apache-2.0
// Names and paths go into JSON, which is UTF-8. Names that are not are refused where they come in;
// paths are what the file system has, and are written with escapes.
#pragma once

#include <string>
#include <string_view>

namespace autopar {

/// Whether all of it is UTF-8 (RFC 3629: shortest forms only, no surrogates).
bool isUtf8(std::string_view text);

/// The text with every byte that belongs to no character as \xHH.
std::string escapedToUtf8(std::string_view text);

} // namespace autopar
