// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files.
#include "autopar/Runtime/Npy.h"

#include "MappedFile.h"
#include "autopar/Artifact/Verify.h"
#include "autopar/Base/OutputFile.h"

#include <cerrno>
#include <cstring>
#include <optional>

namespace autopar::runtime {
namespace {

struct TypeName {
  const char *descr;
  DataType dtype;
};
/// The first spelling of a type is the one that is written.
constexpr TypeName kTypes[] = {
    {"|b1", DataType::Bool}, {"|i1", DataType::I8},   {"<i2", DataType::I16},
    {"<i4", DataType::I32},  {"<i8", DataType::I64},  {"|u1", DataType::U8},
    {"<u2", DataType::U16},  {"<u4", DataType::U32},  {"<u8", DataType::U64},
    {"<f2", DataType::F16},  {"|V2", DataType::BF16}, {"<f4", DataType::F32},
    {"<f8", DataType::F64},  {"<i1", DataType::I8},   {"<u1", DataType::U8},
    {"<b1", DataType::Bool}, {"<V2", DataType::BF16},
};

/// The text behind `'key':`, from the header's Python dictionary.
std::string field(const std::string &header, const std::string &key) {
  size_t at = header.find("'" + key + "'");
  if (at == std::string::npos || (at = header.find(':', at)) == std::string::npos)
    return "";
  at = header.find_first_not_of(' ', at + 1);
  if (at == std::string::npos)
    return "";
  char open = header[at];
  char close = open == '(' ? ')' : open == '\'' ? '\'' : ',';
  size_t end = header.find(close, at + 1);
  size_t begin = open == '(' || open == '\'' ? at + 1 : at;
  return end == std::string::npos ? "" : header.substr(begin, end - begin);
}

std::optional<std::vector<int64_t>> parseShape(const std::string &text) {
  std::vector<int64_t> shape;
  size_t at = 0;
  while ((at = text.find_first_of("0123456789", at)) != std::string::npos) {
    errno = 0;
    char *end = nullptr;
    long long value = std::strtoll(text.c_str() + at, &end, 10);
    if (errno || value < 0)
      return std::nullopt;
    shape.push_back(value);
    at = size_t(end - text.c_str());
  }
  return shape;
}

} // namespace

Result<NpyView> viewNpy(const uint8_t *bytes, size_t size) {
  if (size < 12 || std::memcmp(bytes, "\x93NUMPY", 6) != 0)
    return Status::badInput("not a .npy file");
  size_t start = bytes[6] == 1 ? 10 : 12;
  uint32_t length = 0;
  std::memcpy(&length, bytes + 8, bytes[6] == 1 ? 2 : 4);
  if (size < start + length)
    return Status::badInput("the header is cut off");
  std::string header(reinterpret_cast<const char *>(bytes) + start, length);
  std::string descr = field(header, "descr");
  if (field(header, "fortran_order") != "False")
    return Status::badInput(
        "arrays in Fortran order are not read; save numpy.ascontiguousarray(array)");
  NpyView view;
  bool isKnown = false;
  for (const TypeName &type : kTypes)
    if (!isKnown && descr == type.descr) {
      view.dtype = type.dtype;
      isKnown = true;
    }
  if (!isKnown)
    return Status::badInput("element type '" + descr + "' is not known");
  auto shape = parseShape(field(header, "shape"));
  auto expected = shape ? artifact::checkedBytes(*shape, view.dtype) : std::nullopt;
  if (!expected || uint64_t(*expected) != size - start - length)
    return Status::badInput("the data does not have the size that the header says");
  view.shape = *shape;
  view.data = bytes + start + length;
  return view;
}

Result<NpyArray> readNpy(const std::string &path) {
  auto file = MappedFile::open(path);
  if (!file)
    return file.status();
  auto view = viewNpy((*file)->data(), (*file)->size());
  if (!view)
    return view.status().at(path);
  NpyArray array{view->dtype, view->shape, {}};
  array.bytes.assign(view->data, (*file)->data() + (*file)->size());
  return array;
}

Status writeNpy(const std::string &path, DataType dtype, const std::vector<int64_t> &shape,
                const void *data, int64_t bytes) {
  std::string descr;
  for (const TypeName &type : kTypes)
    if (descr.empty() && type.dtype == dtype)
      descr = type.descr;
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (size_t d = 0; d < shape.size(); ++d)
    header += std::to_string(shape[d]) + (shape.size() == 1 || d + 1 < shape.size() ? "," : "");
  header += "), }";
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string preamble("\x93NUMPY\x01\x00", 8);
  preamble += char(header.size() & 255);
  preamble += char(header.size() >> 8);

  auto file = OutputFile::create(path);
  if (!file)
    return file.status();
  AUTOPAR_RETURN_IF_ERROR((*file)->write(preamble));
  AUTOPAR_RETURN_IF_ERROR((*file)->write(header));
  AUTOPAR_RETURN_IF_ERROR((*file)->write({static_cast<const char *>(data), size_t(bytes)}));
  return (*file)->finish();
}

} // namespace autopar::runtime
