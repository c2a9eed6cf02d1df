// SPDX-License-Identifier: Apache-2.0
#include "PhaseProgress.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"

using namespace mlir;
using namespace mlir::autopar;

PhaseProgress::PhaseProgress(CompileOptions &options)
    : isWatched(llvm::sys::Process::StandardErrIsDisplayed()) {
  options.onPhase = [this](size_t number, size_t count, const PhaseInfo &info) {
    phase = llvm::formatv("[{0}/{1}] {2}: {3}", number, count, info.name, info.sentence);
    if (isWatched)
      llvm::errs() << "\r\033[K" << phase;
    else
      log("");
  };
  options.onDetail = [this](const std::string &what) {
    if (isWatched)
      llvm::errs() << "; " << what;
    else
      log("; " + what);
  };
}

PhaseProgress::~PhaseProgress() {
  if (isWatched)
    llvm::errs() << "\r\033[K";
}

void PhaseProgress::log(const std::string &detail) {
  if (pace.isDue())
    llvm::errs() << "autopar-compile: " << phase << detail << "\n";
}
