// SPDX-License-Identifier: Apache-2.0
// ONNX models as modules of the autopar dialect. The only door to ONNX: no header of this room
// shows protobuf.
#pragma once

#include "autopar/Base/ExtentRange.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <map>
#include <string>

namespace mlir::autopar {

/// What a model leaves open.
struct ImportOptions {
  /// Extents of symbolic dimensions: by their name ("batch"), or by input and position ("x.0")
  /// where the model gives no name. A binding that matches nothing is an error.
  std::map<std::string, int64_t> bindings;
  /// Of bindings that are ranges; `bindings` has the most. An import is at the most.
  ::autopar::ExtentRanges ranges;
  /// Inputs that are constants instead, every element this number ("16000", "0.5", "true"), which
  /// is read as their element type. A name that no input has is an error.
  std::map<std::string, std::string> fixedInputs;
  /// The model is going to be trained: BatchNormalization and Dropout are read in training mode,
  /// whatever mode the model was exported in.
  bool trainingMode = false;
  /// These operators are read in inference mode instead.
  bool inferenceMode = false;
  /// The program is going to run: initializers whose file does not exist are warned of.
  bool needsValues = false;
  /// The training step that the model brings (training_info) is read together with its graph.
  bool ownTraining = false;
};

/// Reads the ONNX model in the file `path`. The module holds one function `@main`: arguments are
/// the model's inputs in order (`autopar.name`), then its parameters (`autopar.name`,
/// `autopar.origin`); all shapes are static. Parameter bytes are not read; origins name them by
/// file and offset, or no file where an external file is absent. Loads the dialects that it needs
/// into `context`.
///
/// Failure is reported through the context's diagnostics and names node, operator and input:
/// unbound dimensions all at once, unsupported operators all at once. Broken files are refused.
FailureOr<OwningOpRef<ModuleOp>> importOnnx(StringRef path, const ImportOptions &options,
                                            MLIRContext &context);

/// Parses "batch=8,seq=1..128,width=64..640:32" into `options.bindings` and `options.ranges`;
/// `error` says what is wrong with it otherwise.
LogicalResult parseBindings(StringRef text, ImportOptions &options, std::string &error);
/// The same of "sr=16000" into `options.fixedInputs`.
LogicalResult parseFixedInputs(StringRef text, ImportOptions &options, std::string &error);

/// Prints which ONNX operators are known, as the page docs/Operators.md.
void printOnnxOperators(llvm::raw_ostream &out);

} // namespace mlir::autopar
