// SPDX-License-Identifier: Apache-2.0
// Compiled kernels against the program that launches them and the target that runs them.
#include "autopar/Artifact/CudaTarget.h"
#include "autopar/Artifact/Verify.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace autopar::artifact {
namespace {

Status bad(const std::string &message) { return Status::badInput(message); }

/// Entry points of PTX text and how many parameters each takes.
std::map<std::string_view, size_t> entriesOf(std::string_view ptx) {
  constexpr std::string_view word = ".entry ", parameter = ".param ";
  std::map<std::string_view, size_t> entries;
  for (size_t at = ptx.find(word); at != ptx.npos; at = ptx.find(word, at + 1)) {
    size_t open = ptx.find('(', at), close = ptx.find(')', at);
    if (open == ptx.npos || close == ptx.npos || close < open)
      return entries;
    std::string_view list = ptx.substr(open, close - open);
    size_t count = 0;
    for (size_t p = list.find(parameter); p != list.npos; p = list.find(parameter, p + 1))
      ++count;
    entries[ptx.substr(at + word.size(), open - at - word.size())] = count;
  }
  return entries;
}

Status verifyLaunch(const Launch &launch, bool isCuda) {
  if (!isCuda)
    return launch.blocks == 0 && launch.threads == 0 && launch.sharedBytes == 0
               ? Status::ok()
               : bad("a launch on a CPU has no blocks");
  if (launch.blocks < 1 || launch.blocks > kMostBlocks || launch.threads < 1 ||
      launch.threads > kMostBlockThreads || launch.sharedBytes < 0 ||
      launch.sharedBytes > kMostSharedBytes)
    return bad("impossible launch of " + std::to_string(launch.blocks) + " blocks of " +
               std::to_string(launch.threads) + " threads with " +
               std::to_string(launch.sharedBytes) + " shared bytes");
  return Status::ok();
}

Status verifyModule(const Program &program, const CompiledKernels &code, bool isCuda) {
  if (!isCuda) {
    if (!code.ptx.empty() || !code.cubin.empty())
      return bad("has CUDA kernels, but the target is no GPU");
    return program.kernels.empty() == code.object.empty() || program.kernels.empty()
               ? Status::ok()
               : bad("kernels are named but none are given");
  }
  if (!code.object.empty())
    return bad("has x86-64 kernels, but the target is CUDA");
  if (code.ptx.empty())
    return program.kernels.empty() && code.cubin.empty()
               ? Status::ok()
               : bad("kernels are named but there is no PTX");
  if (std::find(code.ptx.begin(), code.ptx.end(), 0) != code.ptx.end() - 1)
    return bad("the PTX is not a text that ends with a zero byte");
  return Status::ok();
}

} // namespace

Status verifyKernels(const Program &program, const Target &target, const CompiledKernels &code) {
  bool isCuda = target.isCuda();
  if (isCuda)
    if (auto parsed = CudaTarget::parse(target.features); !parsed)
      return parsed.status();
  AUTOPAR_RETURN_IF_ERROR(verifyModule(program, code, isCuda));
  std::map<std::string_view, size_t> symbols;
  if (isCuda && !code.ptx.empty())
    symbols = entriesOf({reinterpret_cast<const char *>(code.ptx.data()), code.ptx.size() - 1});
  for (const Entry &entry : program.entries)
    for (const Instruction &instruction : entry.instructions) {
      auto *launch = std::get_if<Launch>(&instruction.payload);
      if (!launch)
        continue;
      std::string where = "entry " + entry.name + ", launch " + instruction.id;
      AUTOPAR_RETURN_IF_ERROR(verifyLaunch(*launch, isCuda).at(where));
      if (!isCuda)
        continue;
      const std::string &kernel = program.kernels[size_t(launch->kernel)];
      auto symbol = symbols.find(kernel);
      if (symbol == symbols.end())
        return bad("the PTX has no kernel " + kernel).at(where);
      if (symbol->second != launch->args.size())
        return bad("kernel " + kernel + " takes " + std::to_string(symbol->second) +
                   " buffers, the launch passes " + std::to_string(launch->args.size()))
            .at(where);
    }
  return Status::ok();
}

} // namespace autopar::artifact
