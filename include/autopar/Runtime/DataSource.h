// SPDX-License-Identifier: Apache-2.0
// Batches from files: which samples a step sees follows from the seed and the step alone, and a
// rank reads only the places that its shards hold.
#pragma once

#include "autopar/Runtime/ParameterStore.h"
#include "autopar/Runtime/Session.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace autopar::runtime {

struct DataOptions {
  /// Raw tokens (any ending), .npy, .npz, or patterns ("shards/*.bin"): their samples follow each
  /// other. Or alone "synthetic", "synthetic(vocab=N)": made-up numbers, below N where they are
  /// integers.
  std::vector<std::string> paths;
  /// "input_ids=tokens[:-1], labels=tokens[1:]". Empty: every input from the array of its name; one
  /// input from a .npy.
  std::string fields;
  DataType tokenType = DataType::U16; ///< of raw tokens: u16 or u32
  bool isShuffled = true;
  uint64_t seed = 0;
};

/// Samples that follow each other, by their places in the order of the data. A batch of them
/// repeats them to its end, so that a mean over the batch is theirs where their number divides its.
struct SampleRange {
  int64_t first = 0, count = 0;
};

/// All samples in batches of `batch`: full ones, and of the rest as many as divide `batch`, the
/// most first.
std::vector<SampleRange> wholeBatches(int64_t samples, int64_t batch);

/// A row of an input is a row of an array, or a part of a window into a stream of tokens; windows
/// follow each other without overlap of what the longest part takes. Integers are widened; other
/// conversions are refused. Thread-safe once open.
class DataSource {
public:
  /// Finds every field and checks its type and shape against the program's inputs before the first
  /// step; BadInput or Usage says what does not fit. All fields have the same number of samples.
  static Result<std::unique_ptr<DataSource>> open(const DataOptions &options,
                                                  const std::vector<TensorSpec> &inputs);
  ~DataSource();

  /// Names of the inputs that are fed.
  std::vector<std::string> inputs() const;
  int64_t samples() const;
  /// Whether the samples are made up: there is no end to them.
  bool isSynthetic() const;
  /// Tokens at the ends of files that fill no window.
  int64_t unusedTokens() const;

  /// That every value which the steps [first, first + count) read is within its input's limits;
  /// BadInput names file, field, sample and value. Looks at `share.first` of `share.second` equal
  /// parts, so that processes can divide the work.
  Status checkValues(int64_t first, int64_t count,
                     std::pair<int32_t, int32_t> share = {0, 1}) const;

  /// The box of an input in `step` (first row = first sample of the batch), row-major, into `out`,
  /// which has the box's extent and the input's type.
  Status read(const std::string &input, int64_t step, const Box &box, void *out) const;
  /// The same of a batch of these samples.
  Status read(const std::string &input, SampleRange samples, const Box &box, void *out) const;

private:
  struct State;
  explicit DataSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace autopar::runtime
