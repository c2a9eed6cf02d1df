// SPDX-License-Identifier: Apache-2.0
// Who runs a program. What differs between targets is asked of functions that take one (the
// Library*.h beside this file say what libraries have), or of a switch; there is no list of names
// elsewhere.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"

#include <optional>
#include <string>

namespace mlir::autopar {

enum class Target { Cpu, Cuda };

/// "cpu", "cuda".
llvm::StringRef nameOf(Target target);
/// Nothing for an unknown name.
std::optional<Target> targetFromName(llvm::StringRef name);
/// All names, for messages: "cpu or cuda".
std::string targetNames();

} // namespace mlir::autopar

/// Options of passes and pipelines: `target=cuda`. Other names are refused with those there are.
template <>
class llvm::cl::parser<mlir::autopar::Target> : public basic_parser<mlir::autopar::Target> {
public:
  using basic_parser::basic_parser;

  /// True on error.
  bool parse(Option &option, StringRef, StringRef text, mlir::autopar::Target &value);
  static void print(raw_ostream &os, mlir::autopar::Target value);
  void printOptionDiff(const Option &option, mlir::autopar::Target, OptVal, size_t width) const {
    printOptionNoValue(option, width);
  }
  StringRef getValueName() const override { return "target"; }
};
