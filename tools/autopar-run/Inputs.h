// SPDX-License-Identifier: Apache-2.0
// The --input words: files, or made-up data when asked for.
#pragma once

#include "RunOptions.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/DataSource.h"
#include "autopar/Runtime/Session.h"

#include <string>
#include <vector>

namespace autopar::tools {

/// Applies "name=file.npy", "name=zeros", "name=random" words. "random" is N(0, 1) for floats and
/// small non-negative numbers for integers, the same on every rank.
Status setInputs(runtime::Session &session, const std::vector<std::string> &words);

/// Opens --data and checks its fields; null without --data.
Result<std::unique_ptr<runtime::DataSource>> openData(const runtime::Session &session,
                                                      const RunOptions &options);
/// The same for --eval-data, which must feed the inputs that `data` feeds; null where no step is
/// run.
Result<std::unique_ptr<runtime::DataSource>> openEvalData(const runtime::Session &session,
                                                          const RunOptions &options,
                                                          const runtime::DataSource *data);
/// The batch of `step`, or of some samples, to the ranks of this process.
Status setBatch(runtime::Session &session, const runtime::DataSource &data, int64_t step);
Status setBatch(runtime::Session &session, const runtime::DataSource &data,
                runtime::SampleRange samples);

/// <folder>/<name>.npy of an output; characters that no file name takes become '_'.
std::string outputFile(const std::string &folder, const std::string &name);
/// BadInput where two outputs would have one file.
Status checkOutputFiles(const runtime::Session &session);
/// These files for every output.
Status writeOutputs(const runtime::Session &session, const std::string &folder);

} // namespace autopar::tools
