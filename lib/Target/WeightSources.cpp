// SPDX-License-Identifier: Apache-2.0
// Where parameters come from: files by reference with digests, constants by value.
#include "WeightSources.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/Support/FileSystem.h"

#include <filesystem>

using namespace mlir;
using ::autopar::Digest;
using ::autopar::Result;
using ::autopar::Status;
using ::autopar::artifact::Source;
using ::autopar::artifact::SourceKind;

/// Row-major bytes of a constant; booleans take one byte.
static Result<std::vector<uint8_t>> bytesOf(ElementsAttr value) {
  int64_t size = exec::tensorBytes(cast<RankedTensorType>(value.getType()));
  std::vector<uint8_t> bytes;
  bytes.reserve(size);
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob || static_cast<int64_t>(blob->getData().size()) != size)
      return Status::badInput("a constant's resource is missing or of the wrong size");
    bytes.assign(blob->getData().begin(), blob->getData().end());
    return bytes;
  }
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense)
    return Status::badInput("expected a constant that is dense<...> or dense_resource<...>");
  if (dense.getElementType().isInteger(1)) {
    for (bool element : dense.getValues<bool>())
      bytes.push_back(element);
    return bytes;
  }
  ArrayRef<char> raw = dense.getRawData();
  while (static_cast<int64_t>(bytes.size()) < size)
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  return bytes;
}

Result<Source> mlir::autopar::WeightSources::constantSource(exec::PortOp port) {
  Result<std::vector<uint8_t>> bytes = bytesOf(*port.getValue());
  if (!bytes.isOk())
    return bytes.status().at(port.getName().str());
  constants.resize(llvm::alignTo(constants.size(), 64));
  Source source;
  source.kind = SourceKind::Constants;
  source.offset = constants.size();
  source.length = bytes->size();
  constants.insert(constants.end(), bytes->begin(), bytes->end());
  return source;
}

Result<Source> mlir::autopar::WeightSources::fileSource(exec::PortOp port) {
  std::string path = port.getFile()->str();
  std::unique_ptr<llvm::MemoryBuffer> &file = files[path];
  if (!file) {
    auto mapped =
        llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!mapped)
      return Status::noInput("weight file " + path + ": " + mapped.getError().message());
    file = std::move(*mapped);
  }
  Source source;
  source.kind = SourceKind::File;
  source.offset = port.getOffset();
  source.length = exec::tensorBytes(port.tensorType());
  int64_t size = file->getBufferSize();
  if (source.offset < 0 || source.offset > size || source.length > size - source.offset)
    return Status::badInput("weight " + port.getName().str() + " needs bytes [" +
                            std::to_string(source.offset) + ", " +
                            std::to_string(source.offset + source.length) + ") of " + path +
                            ", which has " + std::to_string(size));
  const char *data = file->getBufferStart() + source.offset;
  source.digest = Digest::of(data, source.length);
  constexpr int64_t chunk = ::autopar::artifact::kChunkBytes;
  for (int64_t begin = 0; begin < source.length; begin += chunk)
    source.chunkDigests.push_back(Digest::of(data + begin, std::min(chunk, source.length - begin)));
  if (!copyPath.empty()) {
    Result<int64_t> place = copied(path, source.offset, StringRef(data, source.length));
    if (!place)
      return place.status();
    source.offset = *place;
    source.path = std::filesystem::path(copyPath).filename().string();
    return source;
  }
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::weakly_canonical(path, error);
  source.path = absolute.string();
  if (!folder.empty()) {
    std::filesystem::path relative = std::filesystem::relative(
        absolute, std::filesystem::weakly_canonical(folder, error), error);
    if (!error && !relative.empty())
      source.path = relative.string();
  }
  return source;
}

/// Where the copy has a range of a file.
Result<int64_t> mlir::autopar::WeightSources::copied(StringRef path, int64_t offset,
                                                     StringRef bytes) {
  auto [place, isNew] = places.try_emplace({path.str(), offset, bytes.size()}, 0);
  if (!isNew)
    return place->second;
  if (!copy) {
    Result<std::unique_ptr<::autopar::OutputFile>> created =
        ::autopar::OutputFile::create(copyPath);
    if (!created)
      return created.status();
    copy = created.take();
  }
  place->second = llvm::alignTo(copiedBytes, 64);
  AUTOPAR_RETURN_IF_ERROR(copy->write(std::string(place->second - copiedBytes, '\0')));
  AUTOPAR_RETURN_IF_ERROR(copy->write(bytes));
  copiedBytes = place->second + static_cast<int64_t>(bytes.size());
  return place->second;
}

Status mlir::autopar::WeightSources::finish() { return copy ? copy->finish() : Status::ok(); }

Result<Source> mlir::autopar::WeightSources::sourceOf(exec::PortOp port) {
  if (port.getFile())
    return fileSource(port);
  if (port.getValue())
    return constantSource(port);
  Source source;
  source.kind = SourceKind::Absent;
  source.drawn = port.getDrawn().value_or("").str();
  return source;
}
