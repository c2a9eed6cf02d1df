// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "PlanFiles.h"

#include "autopar/Base/OutputFile.h"
#include "autopar/Base/Utf8.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Import/Onnx/MultiDevice.h"
#include "autopar/Report/HtmlReport.h"
#include "autopar/Report/PlanTrace.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Status;
using ::autopar::StatusCode;

void PlanFiles::countSamples(func::FuncOp function) {
  samples = samplesOf(function).value_or(0);
  for (BlockArgument argument : function.getArguments())
    if (auto type = dyn_cast<RankedTensorType>(argument.getType());
        !tokens && type && type.getRank() == 2 && type.getElementType().isInteger() &&
        isFed(argument) && type.getDimSize(0) == samples)
      tokens = type.getNumElements();
}

bool PlanFiles::areWanted() const {
  return tellAlternatives() || !options.trace.empty() || !options.emitOnnxPlan.empty() ||
         !options.emitPlan.empty();
}

Status PlanFiles::writeAlternatives(ArrayRef<::autopar::Plan> others) const {
  if (options.emitAlternatives.empty())
    return Status::ok();
  if (std::error_code error = llvm::sys::fs::create_directories(options.emitAlternatives))
    return {StatusCode::CannotCreate, options.emitAlternatives + ": " + error.message()};
  for (auto [number, other] : llvm::enumerate(others)) {
    SmallString<128> path(options.emitAlternatives);
    llvm::sys::path::append(path, llvm::formatv("alternative-{0}.json", number + 1).str());
    AUTOPAR_RETURN_IF_ERROR(other.save(path.str().str()));
  }
  return Status::ok();
}

Status PlanFiles::write(const ::autopar::Plan &plan, const std::string &text,
                        const ::autopar::PlanDetails &details) const {
  if (!options.emitPlan.empty())
    AUTOPAR_RETURN_IF_ERROR(::autopar::writeWholeFile(options.emitPlan, text));
  if (!options.emitOnnxPlan.empty())
    AUTOPAR_RETURN_IF_ERROR(writeMultiDevice(options.input, plan, details, options.emitOnnxPlan));
  ::autopar::ReportInput input{::autopar::escapedToUtf8(llvm::sys::path::filename(options.input)),
                               static_cast<bool>(options.train),
                               samples,
                               tokens,
                               plan,
                               details};
  if (!options.report.empty())
    AUTOPAR_RETURN_IF_ERROR(
        ::autopar::writeWholeFile(options.report, ::autopar::htmlReport(input)));
  if (!options.trace.empty())
    AUTOPAR_RETURN_IF_ERROR(::autopar::writeWholeFile(options.trace, ::autopar::planTrace(input)));
  return Status::ok();
}
