// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "StackedOutputs.h"

#include "Inputs.h"
#include "autopar/Artifact/Verify.h"

#include <algorithm>

namespace autopar::tools {

Result<StackedOutputs> StackedOutputs::create(const runtime::Session &session,
                                              const std::string &folder, int64_t steps,
                                              int64_t batch, int64_t samples) {
  StackedOutputs outputs;
  outputs.batch = batch;
  outputs.left = samples;
  for (const runtime::TensorSpec &spec : session.outputs()) {
    std::vector<int64_t> shape = session.outputShape(spec);
    bool isOfSamples = !shape.empty() && shape[0] == batch;
    int64_t bytes = artifact::checkedBytes(shape, spec.dtype).value_or(0);
    if (isOfSamples)
      shape[0] = samples;
    else
      shape.insert(shape.begin(), steps);
    auto file = runtime::NpyWriter::create(outputFile(folder, spec.name), spec.dtype, shape);
    if (!file)
      return file.status();
    outputs.stacks.push_back({spec, file.take(), isOfSamples, isOfSamples ? bytes / batch : bytes});
  }
  return outputs;
}

Status StackedOutputs::add(const runtime::Session &session) {
  int64_t count = std::min(batch, left);
  for (Stack &stack : stacks) {
    auto data = session.output(stack.output.name);
    if (!data)
      return data.status();
    AUTOPAR_RETURN_IF_ERROR(
        stack.file.write(*data, stack.rowBytes * (stack.isOfSamples ? count : 1)));
  }
  left -= count;
  return Status::ok();
}

Status StackedOutputs::finish() {
  for (Stack &stack : stacks)
    AUTOPAR_RETURN_IF_ERROR(stack.file.finish());
  return Status::ok();
}

} // namespace autopar::tools
