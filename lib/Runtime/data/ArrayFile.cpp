// SPDX-License-Identifier: Apache-2.0
// Finding arrays in data files. A .npz is a ZIP archive of .npy files; numpy.savez stores them
// uncompressed, so that each lies in the file as it is (ZIP: PKWARE APPNOTE 6.3.10, 4.3).
#include "ArrayFile.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace autopar::runtime {
namespace {

template <typename T>
T load(const uint8_t *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

/// What stands in front of the tokens of a shard as llm.c writes it (dev/data/data_common.py): 256
/// numbers of 32 bits, of which the first three are a mark, a version and how many tokens follow.
constexpr size_t kShardHeaderBytes = 1024;

struct ShardHeader {
  DataType type;
  uint64_t tokens;
};

std::optional<ShardHeader> readShardHeader(const uint8_t *data, size_t size) {
  if (size < kShardHeaderBytes)
    return std::nullopt;
  auto mark = load<uint32_t>(data), version = load<uint32_t>(data + 4);
  if (mark == 20240520 && version == 1)
    return ShardHeader{DataType::U16, load<uint32_t>(data + 8)};
  if (mark == 20240801 && version == 7)
    return ShardHeader{DataType::U32, load<uint32_t>(data + 8)};
  return std::nullopt;
}

/// One file of an archive.
struct Member {
  std::string name;
  uint64_t stored = 0, size = 0, header = 0;
  bool isCompressed = false;
};

/// Sizes and offsets past 4 GiB stand in the extra field 1, those that are all ones in the entry
/// first.
void applyZip64(const uint8_t *extra, size_t length, Member &member) {
  for (size_t at = 0; at + 4 <= length;) {
    uint16_t id = load<uint16_t>(extra + at), bytes = load<uint16_t>(extra + at + 2);
    size_t next = at + 4, end = std::min(length, next + bytes);
    if (id == 1)
      for (uint64_t *field : {&member.size, &member.stored, &member.header})
        if (*field == 0xffffffff && next + 8 <= end) {
          *field = load<uint64_t>(extra + next);
          next += 8;
        }
    at = end;
  }
}

/// The archive's table of contents; nothing where the bytes are no archive.
std::optional<std::vector<Member>> listMembers(const uint8_t *data, size_t size) {
  constexpr size_t endBytes = 22, entryBytes = 46, mostComment = 65535;
  if (size < endBytes)
    return std::nullopt;
  size_t end = size - endBytes, least = end > mostComment ? end - mostComment : 0;
  while (load<uint32_t>(data + end) != 0x06054b50)
    if (end-- == least)
      return std::nullopt;
  uint64_t count = load<uint16_t>(data + end + 10), at = load<uint32_t>(data + end + 16);
  if (end >= 20 && load<uint32_t>(data + end - 20) == 0x07064b50) { // the 64-bit end record
    uint64_t record = load<uint64_t>(data + end - 12);
    if (record > size || size - record < 56 || load<uint32_t>(data + record) != 0x06064b50)
      return std::nullopt;
    count = load<uint64_t>(data + record + 32);
    at = load<uint64_t>(data + record + 48);
  }
  std::vector<Member> members;
  for (uint64_t i = 0; i < count; ++i) {
    if (at > size || size - at < entryBytes || load<uint32_t>(data + at) != 0x02014b50)
      return std::nullopt;
    const uint8_t *entry = data + at;
    uint64_t name = load<uint16_t>(entry + 28), extra = load<uint16_t>(entry + 30),
             comment = load<uint16_t>(entry + 32);
    if (size - at - entryBytes < name + extra + comment)
      return std::nullopt;
    Member member{std::string(reinterpret_cast<const char *>(entry) + entryBytes, name),
                  load<uint32_t>(entry + 20), load<uint32_t>(entry + 24),
                  load<uint32_t>(entry + 42), load<uint16_t>(entry + 10) != 0};
    applyZip64(entry + entryBytes + name, extra, member);
    members.push_back(std::move(member));
    at += entryBytes + name + extra + comment;
  }
  return members;
}

Status addMember(ArrayFile &result, const Member &member) {
  const uint8_t *data = result.file->data();
  size_t size = result.file->size();
  if (member.isCompressed)
    return Status::badInput(
        "compressed; save it with numpy.savez, whose arrays can be read in place");
  constexpr size_t headerBytes = 30;
  if (member.header > size || size - member.header < headerBytes ||
      load<uint32_t>(data + member.header) != 0x04034b50)
    return Status::badInput("its header is damaged");
  uint64_t begin = member.header + headerBytes + load<uint16_t>(data + member.header + 26) +
                   load<uint16_t>(data + member.header + 28);
  if (begin > size || size - begin < member.stored)
    return Status::badInput("it reaches past the end of the file");
  auto view = viewNpy(data + begin, member.stored);
  if (!view)
    return view.status();
  std::string name = member.name;
  if (name.ends_with(".npy"))
    name.resize(name.size() - 4);
  result.arrays[name] = view.take();
  return Status::ok();
}

} // namespace

Result<ArrayFile> openArrayFile(const std::string &path, DataType tokenType) {
  auto file = MappedFile::open(path);
  if (!file)
    return file.status();
  ArrayFile result{file.take(), {}};
  const uint8_t *data = result.file->data();
  size_t size = result.file->size();
  if (path.ends_with(".npz")) {
    auto members = listMembers(data, size);
    if (!members)
      return Status::badInput(path + ": not a .npz file, or cut off");
    for (const Member &member : *members)
      if (Status status = addMember(result, member); !status.isOk())
        return status.at(path + ": " + member.name);
  } else if (path.ends_with(".npy")) {
    auto view = viewNpy(data, size);
    if (!view)
      return view.status().at(path);
    result.arrays["array"] = view.take();
  } else if (auto shard = readShardHeader(data, size)) {
    if (size - kShardHeaderBytes != shard->tokens * size_t(byteSize(shard->type)))
      return Status::badInput(path + ": its header says " + std::to_string(shard->tokens) +
                              " tokens of " + std::string(name(shard->type)) + ", it holds " +
                              std::to_string(size - kShardHeaderBytes) + " bytes; is it cut off?");
    result.arrays["tokens"] = {shard->type, {int64_t(shard->tokens)}, data + kShardHeaderBytes};
  } else {
    auto bytes = size_t(byteSize(tokenType));
    if (size % bytes)
      return Status::badInput(path + ": " + std::to_string(size) +
                              " bytes end in the middle of a " + std::string(name(tokenType)) +
                              "; is it cut off, or are its tokens of another type (--token-type)?");
    result.arrays["tokens"] = {tokenType, {int64_t(size / bytes)}, data};
  }
  return result;
}

} // namespace autopar::runtime
