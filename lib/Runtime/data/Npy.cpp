// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files.
#include "autopar/Runtime/Npy.h"

#include "MappedFile.h"
#include "autopar/Artifact/Verify.h"
#include "autopar/Base/OutputFile.h"
#include "autopar/Base/ShapeText.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
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
/// Floats of 8 bits and less; the first is written.
constexpr const char *kVoid[] = {"|V1", "<V1", "<f1"};

/// The text behind `'key':`, from the header's Python dictionary; nothing where there is none.
std::optional<std::string> field(const std::string &header, const std::string &key) {
  size_t at = header.find("'" + key + "'");
  if (at == std::string::npos || (at = header.find(':', at)) == std::string::npos)
    return std::nullopt;
  at = header.find_first_not_of(' ', at + 1);
  if (at == std::string::npos)
    return std::nullopt;
  char open = header[at];
  char close = open == '(' ? ')' : open == '\'' ? '\'' : ',';
  size_t end = header.find(close, at + 1);
  size_t begin = open == '(' || open == '\'' ? at + 1 : at;
  if (end == std::string::npos)
    return std::nullopt;
  return header.substr(begin, end - begin);
}

/// "3, 4" or "3,"; numbers may end in Python's L.
std::optional<std::vector<int64_t>> parseShape(const std::string &text) {
  std::vector<int64_t> shape;
  for (size_t at = text.find_first_not_of(' '); at != std::string::npos;) {
    if (text[at] < '0' || text[at] > '9')
      return std::nullopt;
    errno = 0;
    char *end = nullptr;
    shape.push_back(std::strtoll(text.c_str() + at, &end, 10));
    at = size_t(end - text.c_str());
    at = text.find_first_not_of(text.substr(at, 1) == "L" ? "L " : " ", at);
    if (errno || (at != std::string::npos && text[at] != ','))
      return std::nullopt;
    if (at != std::string::npos)
      at = text.find_first_not_of(' ', at + 1);
  }
  return shape;
}

Result<DataType> parseType(const std::string &descr) {
  for (const TypeName &type : kTypes)
    if (descr == type.descr)
      return type.dtype;
  if (!descr.empty() && descr[0] == '>')
    return Status::badInput("element type '" + descr + "' is big-endian; save array.astype('<" +
                            descr.substr(1) + "')");
  if (descr == "|O")
    return Status::badInput("element type '|O' are Python objects; save an array of numbers");
  return Status::badInput("element type '" + descr +
                          "' is not known; expected booleans, integers, or floats of 16, 32 or 64 "
                          "bits");
}

} // namespace

Result<NpyView> viewNpy(const uint8_t *bytes, size_t size) {
  if (size < 12 || std::memcmp(bytes, "\x93NUMPY", 6) != 0)
    return Status::badInput("not a .npy file");
  if (bytes[6] < 1 || bytes[6] > 3)
    return Status::badInput("version " + std::to_string(bytes[6]) +
                            " of .npy is not known; expected 1 to 3");
  size_t start = bytes[6] == 1 ? 10 : 12;
  uint32_t length = 0;
  std::memcpy(&length, bytes + 8, bytes[6] == 1 ? 2 : 4);
  if (size < start + length)
    return Status::badInput("the header is cut off");
  std::string header(reinterpret_cast<const char *>(bytes) + start, length);
  for (const char *key : {"descr", "fortran_order", "shape"})
    if (!field(header, key))
      return Status::badInput("the header has no " + std::string(key) +
                              "; expected what numpy.save writes");
  std::string order = *field(header, "fortran_order"), extents = *field(header, "shape");
  if (order == "True")
    return Status::badInput(
        "arrays in Fortran order are not read; save numpy.ascontiguousarray(array)");
  if (order != "False")
    return Status::badInput("fortran_order is " + order + "; expected True or False");
  NpyView view;
  std::string descr = *field(header, "descr");
  view.isVoid = std::find(std::begin(kVoid), std::end(kVoid), descr) != std::end(kVoid);
  auto dtype = view.isVoid ? DataType::U8 : parseType(descr);
  if (!dtype)
    return dtype.status();
  view.dtype = *dtype;
  auto shape = parseShape(extents);
  auto expected = shape ? artifact::checkedBytes(*shape, view.dtype) : std::nullopt;
  if (!expected)
    return Status::badInput("shape (" + extents +
                            "): expected extents that are not negative and fit into memory");
  if (uint64_t(*expected) != size - start - length)
    return Status::badInput(
        "the data does not have the size that the header says: " + std::string(name(view.dtype)) +
        " " + shapeText(*shape) + " are " + std::to_string(*expected) + " bytes, there are " +
        std::to_string(size - start - length));
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
  NpyArray array{view->dtype, view->shape, {}, view->isVoid};
  array.bytes.assign(view->data, (*file)->data() + (*file)->size());
  return array;
}

Result<NpyWriter> NpyWriter::create(const std::string &path, DataType dtype,
                                    const std::vector<int64_t> &shape) {
  std::string descr = isByteFloat(dtype) ? kVoid[0] : "";
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
  return NpyWriter(file.take());
}

Status NpyWriter::write(const void *data, int64_t bytes) {
  return file->write({static_cast<const char *>(data), size_t(bytes)});
}

Status writeNpy(const std::string &path, DataType dtype, const std::vector<int64_t> &shape,
                const void *data, int64_t bytes) {
  auto writer = NpyWriter::create(path, dtype, shape);
  if (!writer)
    return writer.status();
  AUTOPAR_RETURN_IF_ERROR(writer->write(data, bytes));
  return writer->finish();
}

} // namespace autopar::runtime
