// SPDX-License-Identifier: Apache-2.0
// The words of an initializer.
#pragma once

#include "autopar/Base/TextCursor.h"
#include "autopar/Runtime/Initializer.h"

namespace autopar::runtime {

class InitializerParser : private TextCursor {
public:
  explicit InitializerParser(const std::string &text) : TextCursor(text), text(text) {}
  Result<Initializer> run();

private:
  const std::string &text;

  struct Arguments {
    std::vector<double> numbers;
    std::optional<double> inputDim;
  };

  std::string word();
  Status number(double &value);
  Status arguments(Arguments &given);
  Status item(Initializer &result);
  Status rule(Initializer::Rule &rule, size_t begin, const std::string &kind);
  Status wrong(const std::string &expected) const;
};

} // namespace autopar::runtime
