// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Report/FoldedNames.h"

#include <algorithm>
#include <cctype>

namespace autopar {
namespace {

std::string axisWords(const AxisList &axes) {
  std::string text;
  for (const std::string &axis : axes)
    text += (text.empty() ? "" : " × ") + axis;
  return text;
}

} // namespace

std::string foldedName(std::string_view name, bool foldsLast) {
  auto separates = [&](size_t at) {
    return at >= name.size() || name[at] == '.' || name[at] == '/';
  };
  std::string folded;
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])))
      ++end;
    bool standsAlone = end > at && at > 0 && separates(at - 1) &&
                       (foldsLast || end < name.size()) && separates(end);
    // "vjp.0" tells operands apart, not layers.
    bool isOperand = std::string_view(folded).ends_with("vjp.");
    if (standsAlone && !isOperand)
      folded += '*';
    else
      folded += name.substr(at, std::max(end, at + 1) - at);
    at = std::max(end, at + 1);
  }
  return folded;
}

std::string shardingWords(const RowSharding &sharding) {
  std::string text;
  size_t rank = sharding.dims.size();
  for (size_t i = 0; i < rank; ++i) {
    if (sharding.dims[i].empty())
      continue;
    std::string dim = rank == 2   ? i == 0 ? "rows" : "columns"
                      : rank == 1 ? "split"
                                  : "dimension " + std::to_string(i);
    text += (text.empty() ? "" : ", ") + dim + " over " + axisWords(sharding.dims[i]);
  }
  if (text.empty())
    text = "whole";
  if (!sharding.partial.empty())
    text += "; a " + sharding.partialKind + " over " + axisWords(sharding.partial) + " is left";
  return text;
}

} // namespace autopar
