// SPDX-License-Identifier: Apache-2.0
// Rank 0 looks for the newest checkpoint whose digests fit; then every rank fills its boxes from
// the pieces that overlap them, whatever plan wrote them.
#include "../data/MappedFile.h"
#include "CheckpointIndex.h"
#include "autopar/Base/ShapeText.h"

#include <algorithm>
#include <filesystem>

namespace autopar::runtime {
namespace {

Result<CheckpointIndex> readIndex(const std::string &path) {
  auto file = MappedFile::open(path + "/" + kIndexName);
  if (!file)
    return file.status();
  auto *text = reinterpret_cast<const char *>((*file)->data());
  auto index = CheckpointIndex::fromJson(std::string(text, text + (*file)->size()));
  if (!index)
    return index.status().at(path + "/" + kIndexName);
  return index;
}

std::string typeText(DataType dtype, const std::vector<int64_t> &shape) {
  return std::string(name(dtype)) + " " + shapeText(shape);
}

/// Both have the same tensors.
Status fits(const CheckpointIndex &index, const Session &session) {
  for (const artifact::Port *state : session.reader().ports()) {
    if (state->role != artifact::Role::State)
      continue;
    auto found = index.tensors.find(state->name);
    if (found == index.tensors.end())
      return Status::badInput("it has no tensor " + state->name);
    if (found->second.dtype != state->dtype || found->second.shape != state->shape)
      return Status::badInput("tensor " + state->name + " is " +
                              typeText(found->second.dtype, found->second.shape) +
                              ", the program's is " + typeText(state->dtype, state->shape));
  }
  for (const auto &[tensorName, tensor] : index.tensors)
    if (std::none_of(session.states().begin(), session.states().end(),
                     [&](const TensorSpec &state) { return state.name == tensorName; }))
      return Status::badInput("it has a tensor " + tensorName + ", the program has none");
  return Status::ok();
}

/// The part of `piece` that lies in `wanted`, into `out`, which has the shape of `wanted`.
void copyOverlap(const uint8_t *bytes, const CheckpointPiece &piece, const Box &wanted,
                 int64_t elementBytes, void *out) {
  size_t rank = wanted.extent.size();
  Box inPiece{std::vector<int64_t>(rank), std::vector<int64_t>(rank)}, inWanted = inPiece;
  int64_t count = 1;
  for (size_t d = 0; d < rank; ++d) {
    int64_t begin = std::max(piece.box.offset[d], wanted.offset[d]);
    int64_t end =
        std::min(piece.box.offset[d] + piece.box.extent[d], wanted.offset[d] + wanted.extent[d]);
    if (begin >= end)
      return;
    inPiece.offset[d] = begin - piece.box.offset[d];
    inWanted.offset[d] = begin - wanted.offset[d];
    inPiece.extent[d] = inWanted.extent[d] = end - begin;
    count *= end - begin;
  }
  std::vector<uint8_t> part(size_t(count * elementBytes));
  copyBoxToLocal(bytes, piece.box.extent, inPiece, part.data(), inPiece.extent, elementBytes);
  copyBoxToGlobal(part.data(), inPiece.extent, inWanted, out, wanted.extent, elementBytes);
}

Status fill(Session &session, const std::string &path, const CheckpointIndex &index) {
  std::map<std::string, std::shared_ptr<const MappedFile>> files;
  for (const auto &[file, bytes] : index.fileBytes) {
    auto mapped = MappedFile::open(path + "/" + file);
    if (!mapped)
      return mapped.status();
    if (int64_t((*mapped)->size()) != bytes)
      return Status::badInput(path + "/" + file + ": its size has changed");
    files[file] = mapped.take();
  }
  return session.setStates([&](const StateBox &state, void *out) {
    for (const CheckpointPiece &piece : index.tensors.at(state.name).pieces)
      copyOverlap(files.at(piece.file)->data() + piece.begin, piece, state.box,
                  byteSize(state.dtype), out);
    return Status::ok();
  });
}

/// Rank 0: the newest whole checkpoint as path and remarks, separated by a line end; "" when there
/// is none at all.
Result<std::string> chooseNewest(const Session &session, const std::string &folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder + "/" + kIndexName, ignored))
    return Status::badInput(folder + " is a checkpoint itself; expected the folder that holds it");
  if (std::filesystem::exists(folder, ignored) && !std::filesystem::is_directory(folder, ignored))
    return Status::badInput(folder + ": expected a folder of checkpoints, it is a file");
  std::vector<std::string> names = checkpointsIn(folder);
  std::string remarks;
  for (auto at = names.rbegin(); at != names.rend(); ++at) {
    std::string path = folder + "/" + *at;
    auto index = readIndex(path);
    Status status = index ? index->verifyFiles(path) : index.status();
    if (!status.isOk()) {
      remarks += "passed over " + path + ", which is not whole: " + status.message() + "\n";
      continue;
    }
    if (Status other = fits(*index, session); !other.isOk())
      return other.at(path + " is a checkpoint of another model or optimizer");
    return path + "\n" + remarks;
  }
  if (!remarks.empty())
    return Status::badInput("no whole checkpoint in " + folder + "\n" + remarks);
  return std::string();
}

/// Loads on all ranks what rank 0 chose (`answer` counts on rank 0 alone).
Result<std::optional<LoadedCheckpoint>> loadChosen(Session &session,
                                                   const Result<std::string> &answer) {
  std::string text =
      answer ? "+" + *answer
             : std::to_string(answer.status().exitCode()) + " " + answer.status().message();
  auto shared = session.broadcastText(text);
  if (!shared)
    return shared.status();
  if ((*shared)[0] != '+') {
    size_t blank = shared->find(' ');
    return Status{StatusCode(std::stoi(shared->substr(0, blank))), shared->substr(blank + 1)};
  }
  if (shared->size() == 1)
    return std::optional<LoadedCheckpoint>();
  size_t end = shared->find('\n');
  LoadedCheckpoint loaded;
  loaded.path = shared->substr(1, end - 1);
  loaded.remarks = end == std::string::npos ? "" : shared->substr(end + 1);
  auto index = readIndex(loaded.path);
  if (!index)
    return index.status();
  AUTOPAR_RETURN_IF_ERROR(fill(session, loaded.path, *index));
  loaded.info = index->info;
  session.setSkippedSteps(index->skippedSteps);
  return std::optional<LoadedCheckpoint>(std::move(loaded));
}

} // namespace

Result<std::optional<LoadedCheckpoint>> loadNewestCheckpoint(Session &session,
                                                             const std::string &folder) {
  return loadChosen(session, session.hasOutputs() ? chooseNewest(session, folder)
                                                  : Result<std::string>(std::string()));
}

Result<LoadedCheckpoint> loadCheckpoint(Session &session, const std::string &path) {
  auto choose = [&]() -> Result<std::string> {
    auto index = readIndex(path);
    if (Status status = index ? index->verifyFiles(path) : index.status(); !status.isOk())
      return Status{status.code(), status.message() + "; --resume auto takes the newest checkpoint "
                                                      "in --checkpoint-dir that is whole"};
    if (Status other = fits(*index, session); !other.isOk())
      return other.at(path + " is a checkpoint of another model or optimizer");
    return path + "\n";
  };
  auto loaded =
      loadChosen(session, session.hasOutputs() ? choose() : Result<std::string>(std::string()));
  if (!loaded)
    return loaded.status();
  return std::move(**loaded);
}

} // namespace autopar::runtime
