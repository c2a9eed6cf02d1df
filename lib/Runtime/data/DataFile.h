// SPDX-License-Identifier: Apache-2.0
// Which rows of a data file, or which windows into its tokens, feed the inputs of a program.
#pragma once

#include "ArrayFile.h"
#include "Fields.h"
#include "autopar/Runtime/Session.h"

#include <string>
#include <vector>

namespace autopar::runtime {

/// Where the rows of one input come from.
struct Feed {
  TensorSpec input;
  NpyView array;
  std::vector<int64_t> rowShape; ///< the input's shape; its first extent is not the row's
  int64_t stride = 0;            ///< elements from one sample to the next
  int64_t start = 0;             ///< elements in front of the row
  int64_t samples = 0;
};

class DataFile {
public:
  /// Finds the array of every field; of no fields, arrays named like inputs. BadInput says what
  /// does not fit. All fields have the same number of samples.
  static Result<DataFile> open(const std::string &path, DataType tokenType,
                               std::vector<Field> fields, const std::vector<TensorSpec> &inputs);

  const std::string &path() const { return name; }
  const std::vector<Feed> &feeds() const { return fed; }
  int64_t samples() const { return fed.front().samples; }
  /// Tokens at the end that fill no window.
  int64_t unusedTokens() const { return unused; }

  const uint8_t *rowOf(const Feed &feed, int64_t sample) const {
    return feed.array.data + (sample * feed.stride + feed.start) * byteSize(feed.array.dtype);
  }

private:
  Status addFields(std::vector<Field> fields, const std::vector<TensorSpec> &inputs);
  Status addField(const Field &field, const std::vector<TensorSpec> &inputs);
  Status placeRow(const Field &field, Feed &feed);
  Status placeWindows(const std::vector<Field> &fields);

  std::string name;
  ArrayFile file;
  std::vector<Feed> fed;
  int64_t unused = 0;
};

} // namespace autopar::runtime
