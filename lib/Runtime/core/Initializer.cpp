// SPDX-License-Identifier: Apache-2.0
// Numbers for parameters that the model came without: a counter-based generator, so that element i
// is the same whoever computes it.
#include "autopar/Runtime/ParameterStore.h"

#include "autopar/Base/Mix.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

namespace autopar::runtime {
namespace {

/// In (0, 1).
double unit(uint64_t bits) { return (double(bits >> 11) + 0.5) * 0x1.0p-53; }

Status malformed(const std::string &text) {
  return {StatusCode::Usage,
          "initializer '" + text +
              "' is not understood; expected normal(0.02), uniform(0.1) or constant(1), then "
              "optionally ', seed=7'"};
}

} // namespace

Result<Initializer> Initializer::parse(const std::string &text) {
  Initializer result;
  size_t open = text.find('('), close = text.find(')');
  if (open == std::string::npos || close == std::string::npos || close < open)
    return malformed(text);
  std::string kind = text.substr(0, open), number = text.substr(open + 1, close - open - 1);
  if (kind == "normal")
    result.kind = Kind::Normal;
  else if (kind == "uniform")
    result.kind = Kind::Uniform;
  else if (kind == "constant")
    result.kind = Kind::Constant;
  else
    return malformed(text);
  char *end = nullptr;
  result.scale = std::strtod(number.c_str(), &end);
  if (number.empty() || *end || !std::isfinite(result.scale))
    return malformed(text);
  std::string rest = text.substr(close + 1);
  size_t seed = rest.find("seed=");
  if (rest.find_first_not_of(", ") == std::string::npos)
    return result;
  if (seed == std::string::npos || rest.find_first_not_of(", ") != seed)
    return malformed(text);
  std::string value = rest.substr(seed + 5);
  result.seed = std::strtoull(value.c_str(), &end, 10);
  if (value.empty() || *end)
    return malformed(text);
  return result;
}

double Initializer::value(const std::string &parameter, uint64_t index) const {
  if (kind == Kind::Constant)
    return scale;
  Digest digest = Digest::of(parameter.data(), parameter.size());
  uint64_t name;
  std::memcpy(&name, digest.bytes.data(), 8);
  uint64_t key = mix(seed ^ mix(name));
  double u = unit(mix(key ^ mix(2 * index)));
  if (kind == Kind::Uniform)
    return scale * (2 * u - 1);
  double v = unit(mix(key ^ mix(2 * index + 1)));
  return scale * std::sqrt(-2 * std::log(u)) *
         std::cos(6.283185307179586 * v); // Box and Muller, 1958
}

} // namespace autopar::runtime
