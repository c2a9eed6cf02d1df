// SPDX-License-Identifier: Apache-2.0
// The trained parameters as whole tensors in one file, for other programs. Boxes travel to rank 0
// in a checkpoint's way, through files: whatever fits on the disk can be exported.
#include "../data/MappedFile.h"
#include "CheckpointFolders.h"
#include "CheckpointIndex.h"
#include "autopar/Base/AverageName.h"
#include "autopar/Base/OutputFile.h"
#include "autopar/Base/TransposeBytes.h"
#include "autopar/Runtime/SafetensorsFile.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace autopar::runtime {
namespace {

/// `ports` are parameters by the name of the tensor that is written.
Status writeWhole(const CheckpointIndex &index, const std::string &from, const std::string &path,
                  const std::map<std::string, const artifact::Port *> &ports) {
  std::vector<SafetensorsEntry> entries;
  std::vector<const artifact::Port *> exported;
  std::vector<const CheckpointTensor *> tensors;
  for (const auto &[tensorName, tensor] : index.tensors)
    if (auto port = ports.find(tensorName); port != ports.end()) {
      exported.push_back(port->second);
      tensors.push_back(&tensor);
      entries.push_back(
          {exported.back()->sourceName(), tensor.dtype, exported.back()->sourceShape(), 0, 0});
    }
  std::string front = layOutSafetensors(entries);
  auto file = OutputFile::create(path);
  if (!file)
    return file.status();
  AUTOPAR_RETURN_IF_ERROR((*file)->write(front));
  for (size_t i = 0; i < entries.size(); ++i) {
    const CheckpointTensor &tensor = *tensors[i];
    std::vector<uint8_t> whole(size_t(entries[i].end - entries[i].begin));
    for (const CheckpointPiece &piece : tensor.pieces) {
      auto part = MappedFile::open(from + "/" + piece.file);
      if (!part)
        return part.status();
      copyBoxToGlobal((*part)->data() + piece.begin, piece.box.extent, piece.box, whole.data(),
                      tensor.shape, byteSize(tensor.dtype));
    }
    if (!exported[i]->transposeOf.empty()) {
      std::vector<uint8_t> stored = whole;
      transposeBytes(stored.data(), whole.data(), tensor.shape[0], tensor.shape[1],
                     size_t(byteSize(tensor.dtype)));
    }
    AUTOPAR_RETURN_IF_ERROR(
        (*file)->write({reinterpret_cast<const char *>(whole.data()), whole.size()}));
  }
  return (*file)->finish();
}

} // namespace

static bool hasState(const Session &session, const std::string &name) {
  return std::any_of(session.states().begin(), session.states().end(),
                     [&](const TensorSpec &state) { return state.name == name; });
}

Status checkExported(const Session &session, Exported what) {
  bool isThere = what == Exported::Parameters ||
                 std::any_of(session.states().begin(), session.states().end(), [&](auto &state) {
                   return hasState(session, averageName(state.name));
                 });
  return isThere ? Status::ok()
                 : Status::badInput(session.reader().path() +
                                    " keeps no averages of its parameters: compile it with an "
                                    "optimizer that does, such as adamw(lr=1e-4, ema=0.999)");
}

Status exportSafetensors(Session &session, const std::string &path, Exported what) {
  AUTOPAR_RETURN_IF_ERROR(checkExported(session, what));
  std::error_code error;
  auto there = std::filesystem::status(path, error);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    return {StatusCode::CannotCreate, path + ": stands there and is no file; name another one"};
  std::string folder = path + ".pieces";
  std::string from = folder + "/" + checkpointName(0);
  Status saved = saveCheckpoint(session, folder, {});
  if (!session.hasOutputs())
    return saved;
  std::shared_ptr<void> cleanUp(nullptr, [&](void *) {
    for (const std::string &left : {from + ".partial", from, folder})
      (void)removeFolder(left);
  });
  AUTOPAR_RETURN_IF_ERROR(saved);
  // What an optimizer keeps has no source; parameters have one.
  std::map<std::string, const artifact::Port *> ports;
  for (const artifact::Port *port : session.reader().ports())
    if (port->role == artifact::Role::State && port->source.kind != artifact::SourceKind::None)
      ports.emplace(what == Exported::Averages && hasState(session, averageName(port->name))
                        ? averageName(port->name)
                        : port->name,
                    port);
  auto file = MappedFile::open(from + "/" + kIndexName);
  if (!file)
    return file.status();
  auto *text = reinterpret_cast<const char *>((*file)->data());
  auto index = CheckpointIndex::fromJson(std::string(text, text + (*file)->size()));
  return index ? writeWhole(*index, from, path, ports) : index.status();
}

} // namespace autopar::runtime
