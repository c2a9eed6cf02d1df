// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files, versions 1 to 3, C order, little-endian. bf16 travels as two-byte void
// ("|V2"), the way NumPy extension types are stored; so do floats of 8 bits and less ("|V1"), of
// which a file does not say the kind.
#pragma once

#include "autopar/Base/DataType.h"
#include "autopar/Base/OutputFile.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace autopar::runtime {

/// An array inside bytes that somebody else owns.
struct NpyView {
  DataType dtype = DataType::F32;
  std::vector<int64_t> shape;
  const uint8_t *data = nullptr;
  bool isVoid = false; ///< bytes of some type that NumPy does not have; `dtype` is U8
};

/// The array in the `size` bytes of a whole .npy file; BadInput says what is wrong with them.
Result<NpyView> viewNpy(const uint8_t *bytes, size_t size);

struct NpyArray {
  DataType dtype = DataType::F32;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
  bool isVoid = false; ///< as in NpyView
};

/// What to do about such bytes where numbers are expected.
constexpr const char *kVoidBytes =
    "bytes of a type that NumPy does not have ('|V1'); save what they "
    "are, such as array.view(numpy.uint8)";

/// NoInput when it cannot be read, BadInput when it is not a .npy of a known type.
Result<NpyArray> readNpy(const std::string &path);

/// An array on its way into a file, as OutputFile has it: `shape` is said first, its bytes follow
/// in pieces.
class NpyWriter {
public:
  static Result<NpyWriter> create(const std::string &path, DataType dtype,
                                  const std::vector<int64_t> &shape);
  Status write(const void *data, int64_t bytes);
  Status finish() { return file->finish(); }

private:
  explicit NpyWriter(std::unique_ptr<OutputFile> file) : file(std::move(file)) {}
  std::unique_ptr<OutputFile> file;
};

/// Writes into a temporary file beside `path`, then renames it.
Status writeNpy(const std::string &path, DataType dtype, const std::vector<int64_t> &shape,
                const void *data, int64_t bytes);

} // namespace autopar::runtime
