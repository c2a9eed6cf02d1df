// SPDX-License-Identifier: Apache-2.0
// Every rank writes a file of its own into step-<N>.partial; when all are on disk, rank 0 adds the
// index and renames the folder. A crash at any moment leaves the older checkpoints as they were.
#include "CheckpointFolders.h"
#include "CheckpointIndex.h"
#include "autopar/Base/OutputFile.h"
#include "autopar/Runtime/SafetensorsFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <mutex>

namespace autopar::runtime {
namespace {

/// The name of a box within its file: the tensor's where the box is all of it.
std::string entryName(const StateBox &state) {
  if (state.box.extent == state.shape)
    return state.name;
  std::string name = state.name + "[";
  for (size_t d = 0; d < state.shape.size(); ++d)
    name += (d ? "," : "") + std::to_string(state.box.offset[d]) + ":" +
            std::to_string(state.box.offset[d] + state.box.extent[d]);
  return name + "]";
}

Result<CheckpointIndex> writeRank(const std::string &folder, int32_t rank,
                                  const std::vector<StateBox> &boxes,
                                  const Session::BoxBytes &read) {
  CheckpointIndex part;
  std::vector<SafetensorsEntry> entries;
  for (const StateBox &state : boxes)
    entries.push_back({entryName(state), state.dtype, state.box.extent, 0, 0});
  std::string front = layOutSafetensors(entries);
  std::string name = "rank-" + std::to_string(rank) + ".safetensors";
  auto file = OutputFile::create(folder + "/" + name);
  if (!file)
    return file.status();
  AUTOPAR_RETURN_IF_ERROR((*file)->write(front));
  for (size_t i = 0; i < boxes.size(); ++i) {
    auto bytes = read(i);
    if (!bytes)
      return bytes.status();
    AUTOPAR_RETURN_IF_ERROR(
        (*file)->write({reinterpret_cast<const char *>(bytes->data()), bytes->size()}));
    CheckpointTensor &tensor = part.tensors[boxes[i].name];
    tensor.dtype = boxes[i].dtype;
    tensor.shape = boxes[i].shape;
    tensor.pieces.push_back({name, entries[i].name, boxes[i].box, entries[i].begin,
                             Digest::of(bytes->data(), bytes->size())});
  }
  AUTOPAR_RETURN_IF_ERROR((*file)->finish());
  part.fileBytes[name] = entries.empty() ? int64_t(front.size()) : entries.back().end;
  return part;
}

/// A new, empty folder for the ranks to write into.
Status prepare(const std::string &folder, const std::string &partial) {
  AUTOPAR_RETURN_IF_ERROR(makeFolders(folder));
  AUTOPAR_RETURN_IF_ERROR(removeFolder(partial));
  return makeFolders(partial);
}

Status commit(const std::string &folder, const std::string &partial, const std::string &whole,
              const CheckpointIndex &index) {
  AUTOPAR_RETURN_IF_ERROR(writeWholeFile(partial + "/" + kIndexName, index.toJson()));
  // One that is there already changes places with the new one, so that there always is one.
  if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, whole.c_str(), RENAME_EXCHANGE) == 0) {
    AUTOPAR_RETURN_IF_ERROR(syncFolder(folder));
    return removeFolder(partial);
  }
  if (errno != ENOENT)
    AUTOPAR_RETURN_IF_ERROR(removeFolder(whole)); // a file system that cannot exchange
  if (std::rename(partial.c_str(), whole.c_str()) != 0)
    return {StatusCode::CannotCreate,
            "cannot rename " + partial + " to " + whole + ": " + std::strerror(errno)};
  return syncFolder(folder);
}

/// Rank 0's status, on all ranks.
Status shared(Session &session, const Status &own) {
  auto text =
      session.broadcastText(own.isOk() ? "" : std::to_string(own.exitCode()) + " " + own.message());
  if (!text)
    return text.status();
  if (text->empty())
    return Status::ok();
  size_t blank = text->find(' ');
  return {StatusCode(std::stoi(text->substr(0, blank))), text->substr(blank + 1)};
}

} // namespace

Status saveCheckpoint(Session &session, const std::string &folder, const CheckpointInfo &info) {
  std::string whole = folder + "/" + checkpointName(info.step), partial = whole + ".partial";
  bool isRoot = session.hasOutputs();
  AUTOPAR_RETURN_IF_ERROR(shared(session, isRoot ? prepare(folder, partial) : Status::ok()));
  CheckpointIndex mine;
  std::mutex mutex;
  Status written = session.visitStates(
      [&](int32_t rank, const std::vector<StateBox> &boxes, const Session::BoxBytes &read) {
        auto part = writeRank(partial, rank, boxes, read);
        if (!part)
          return part.status();
        std::lock_guard lock(mutex);
        return mine.addPart(CheckpointIndex::partToJson(*part));
      });
  if (!written.isOk()) {
    (void)removeFolder(partial); // what no one reads need not fill the disk
    return written;
  }
  auto parts = session.gatherTexts(CheckpointIndex::partToJson(mine));
  if (!parts)
    return parts.status();
  Status status;
  if (isRoot) {
    CheckpointIndex index;
    index.info = info;
    index.skippedSteps = session.skippedSteps();
    index.worldSize = session.reader().worldSize();
    for (const std::string &part : *parts)
      if (status.isOk())
        status = index.addPart(part);
    if (status.isOk())
      status = commit(folder, partial, whole, index);
    if (!status.isOk())
      (void)removeFolder(partial);
  }
  return shared(session, status);
}

} // namespace autopar::runtime
