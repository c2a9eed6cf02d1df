// SPDX-License-Identifier: Apache-2.0
// The small language of losses and optimizers on the command line: name(argument, key=number, ...),
// and sums of such calls.
#pragma once

#include "autopar/Base/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace autopar {

/// A parsed call and the text it came from, so that later errors can point into it.
struct Call {
  struct Option {
    double number = 0;
    size_t position = 0; ///< of the key in `text`
  };
  std::string text;
  std::string name;
  size_t namePosition = 0;
  std::vector<std::string> arguments;
  std::map<std::string, Option> options;

  /// The option's value, or `fallback`. Every option that a caller asks for is known from then on.
  double take(const std::string &key, double fallback);
  /// BadInput for an option that nobody took, naming those that exist.
  Status checkAllTaken() const;
  /// BadInput: `what` "TEXT": message at character N.
  Status errorAt(size_t position, const std::string &message) const;
  /// BadInput: `what` "TEXT": message.
  Status error(const std::string &message) const;

  /// Parses `text`; a name alone is a call without arguments. Errors point at the character. `what`
  /// says what the text is ("optimizer").
  static Result<Call> parse(const std::string &what, const std::string &text);
  /// Parses calls with factors, "0.5 * f(a) + g(b)": one or more. Their names hold no '+'.
  static Result<std::vector<struct WeightedCall>> parseSum(const std::string &what,
                                                           const std::string &text);

private:
  Status parseFrom(class TextCursor &cursor);

  std::string what;
  std::vector<std::string> taken;
};

/// One of the terms of a sum.
struct WeightedCall {
  double factor = 1;
  Call call;
};

} // namespace autopar
