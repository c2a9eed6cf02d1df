// SPDX-License-Identifier: Apache-2.0
// Reads and verifies parameter slices. A digest covers 4 MiB chunks where the compiler wrote them,
// so a rank reads and verifies only what it needs; each chunk is verified once per process.
#include "autopar/Runtime/ParameterStore.h"

#include "InitializerParser.h"

#include "autopar/Artifact/Verify.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace autopar::runtime {

using artifact::Port;
using artifact::PortShard;
using artifact::Source;
using artifact::SourceKind;

namespace {

/// Gives the pages of a read-only file mapping back, so that reading weights costs no memory beyond
/// the plan; they stay in the page cache.
void releasePages(const uint8_t *data, int64_t bytes) {
  uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
  uintptr_t begin = reinterpret_cast<uintptr_t>(data) / page * page;
  uintptr_t end = reinterpret_cast<uintptr_t>(data) + uintptr_t(bytes);
  madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

} // namespace

struct ParameterStore::File {
  void *mapping = nullptr;
  int64_t bytes = 0;
  std::mutex mutex;
  std::set<std::pair<int64_t, int64_t>> verified; ///< (offset, length) ranges

  ~File() {
    if (mapping)
      munmap(mapping, size_t(bytes));
  }
  const uint8_t *at(int64_t offset) const { return static_cast<const uint8_t *>(mapping) + offset; }

  bool matches(int64_t offset, int64_t length, const Digest &digest) {
    std::lock_guard lock(mutex);
    if (verified.count({offset, length}))
      return true;
    bool same = Digest::of(at(offset), size_t(length)) == digest;
    if (length > artifact::kChunkBytes / 4)
      releasePages(at(offset), length);
    if (!same)
      return false;
    verified.insert({offset, length});
    return true;
  }
};

ParameterStore::ParameterStore(artifact::Reader reader, std::optional<Initializer> initializer)
    : reader(std::move(reader)), initializer(std::move(initializer)) {}
ParameterStore::~ParameterStore() = default;

Result<std::shared_ptr<ParameterStore::File>> ParameterStore::open(const std::string &path) {
  std::string full = path.front() == '/' ? path : reader.folder() + "/" + path;
  std::lock_guard lock(mutex);
  std::shared_ptr<File> &known = files[full];
  if (known)
    return known;
  int fd = ::open(full.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat info {};
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    std::string reason = fd < 0 ? std::strerror(errno) : "not a regular file";
    if (fd >= 0)
      close(fd);
    return Status::noInput("cannot open " + full + ": " + reason +
                           "; the artifact reads its weights from there: move it together with the "
                           "model's files, or compile it with --copy-weights");
  }
  auto file = std::make_shared<File>();
  file->bytes = info.st_size;
  if (file->bytes > 0) {
    void *mapping = mmap(nullptr, size_t(file->bytes), PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping != MAP_FAILED)
      file->mapping = mapping;
  }
  close(fd);
  if (file->bytes > 0 && !file->mapping)
    return Status::noInput("cannot map " + full + ": " + std::strerror(errno));
  known = file;
  return known;
}

/// First byte of the stored tensor. With a box, the digests of all chunks that it touches are
/// compared first; without, nothing is read.
Result<const uint8_t *> ParameterStore::bytesOf(const Port &port, std::optional<Box> box) {
  const Source &source = port.source;
  if (source.kind == SourceKind::Constants)
    return reader.constants().data() + source.offset;
  auto file = open(source.path);
  if (!file)
    return file.status().at("parameter " + port.name);
  File &f = **file;
  if (source.offset > f.bytes || source.length > f.bytes - source.offset)
    return Status::badInput("parameter " + port.name + ": " + source.path + " has " +
                            std::to_string(f.bytes) + " bytes, needed are " +
                            std::to_string(source.offset + source.length) +
                            "; the file is not the one the model was compiled with");
  if (!box)
    return f.at(source.offset);
  auto refuse = [&] {
    return Status::badInput("parameter " + port.name + ": the digest of its bytes in " +
                            source.path +
                            " does not match; the file was changed since the model was compiled");
  };
  if (source.chunkDigests.empty()) {
    if (!f.matches(source.offset, source.length, source.digest))
      return refuse();
    return f.at(source.offset);
  }
  // The touched chunks lie between the box's first and last element; for a box that is narrow in an
  // inner dim that is more than it touches, but never wrong.
  int64_t first = 0, last = 0;
  for (size_t d = 0; d < port.shape.size(); ++d) {
    if (box->extent[d] == 0)
      return f.at(source.offset);
    first = first * port.shape[d] + box->offset[d];
    last = last * port.shape[d] + box->offset[d] + box->extent[d] - 1;
  }
  int64_t size = byteSize(port.dtype);
  for (int64_t chunk = first * size / artifact::kChunkBytes;
       chunk <= last * size / artifact::kChunkBytes; ++chunk) {
    int64_t begin = chunk * artifact::kChunkBytes;
    int64_t length = std::min(artifact::kChunkBytes, source.length - begin);
    if (!f.matches(source.offset + begin, length, source.chunkDigests[size_t(chunk)]))
      return refuse();
  }
  return f.at(source.offset);
}

namespace {

/// Copies the box a few rows of the outermost dim at a time and releases what was read of a file.
void copyInPieces(const uint8_t *data, const Port &port, const Box &box, void *local,
                  const std::vector<int64_t> &localShape) {
  int64_t size = byteSize(port.dtype);
  if (port.shape.empty() || box.extent[0] == 0)
    return copyBoxToLocal(data, port.shape, box, local, localShape, size);
  int64_t globalRow = size, localRow = size;
  for (size_t d = 1; d < port.shape.size(); ++d) {
    globalRow *= port.shape[d];
    localRow *= localShape[d];
  }
  if (globalRow == 0)
    return;
  int64_t rows = std::max<int64_t>(1, artifact::kChunkBytes / globalRow);
  for (int64_t done = 0; done < box.extent[0]; done += rows) {
    Box piece = box;
    piece.offset[0] += done;
    piece.extent[0] = std::min(rows, box.extent[0] - done);
    copyBoxToLocal(data, port.shape, piece, static_cast<uint8_t *>(local) + done * localRow,
                   localShape, size);
    // An artifact's constants may lie in memory that is no file's.
    if (port.source.kind == SourceKind::File)
      releasePages(data + piece.offset[0] * globalRow, piece.extent[0] * globalRow);
  }
}

} // namespace

Status ParameterStore::read(const Port &port, const PortShard &shard, void *local,
                            const std::vector<int64_t> &localShape) {
  int64_t bytes = artifact::checkedBytes(localShape, port.dtype).value_or(0);
  bool isZero = port.source.kind == SourceKind::None; // state before the first step
  if (isZero || shard.extent != localShape)
    std::memset(local, 0, size_t(bytes));
  if (isZero)
    return Status::ok();
  Box box{shard.offset, shard.extent};
  if (initializer && initializer->covers(port))
    return initializer->fill(port, box, local, localShape);
  if (!port.source.drawn.empty()) {
    auto drawn = InitializerParser(port.source.drawn).run();
    return drawn ? drawn->fill(port, box, local, localShape)
                 : drawn.status().at("parameter " + port.name);
  }
  if (port.source.kind == SourceKind::Absent)
    return Status::noInput(
        "parameter " + port.name +
        " has no weights: the model was compiled without them; give --init \"normal(0.02)\" for "
        "random ones, or --init weights.safetensors");
  auto data = bytesOf(port, box);
  if (!data)
    return data.status();
  copyInPieces(*data, port, box, local, localShape);
  return Status::ok();
}

Status ParameterStore::check(const artifact::Program &program, bool digests) {
  for (const Port &port : program.ports) {
    if (port.source.kind == SourceKind::Absent && port.source.drawn.empty() && !initializer)
      return read(port, {}, nullptr, {});
    if (port.source.kind != SourceKind::File)
      continue;
    std::optional<Box> whole;
    if (digests)
      whole = Box{std::vector<int64_t>(port.shape.size(), 0), port.shape};
    if (auto data = bytesOf(port, whole); !data)
      return data.status();
  }
  return Status::ok();
}

void ParameterStore::releaseFiles() {
  std::lock_guard lock(mutex);
  for (const auto &[path, file] : files)
    if (file && file->mapping)
      releasePages(file->at(0), file->bytes);
}

} // namespace autopar::runtime
