// SPDX-License-Identifier: Apache-2.0
// The words of an initializer.
#pragma once

#include "autopar/Runtime/Initializer.h"

namespace autopar::runtime {

class InitializerParser {
public:
  explicit InitializerParser(const std::string &text) : text(text) {}
  Result<Initializer> run();

private:
  const std::string &text;
  size_t at = 0;

  struct Arguments {
    std::vector<double> numbers;
    std::optional<double> inputDim;
  };

  void skip();
  bool take(char c);
  std::string word();
  Status number(double &value);
  Status arguments(Arguments &given);
  Status item(Initializer &result);
  Status rule(Initializer::Rule &rule, size_t begin, const std::string &kind);
  Status wrong(const std::string &expected) const;
};

} // namespace autopar::runtime
