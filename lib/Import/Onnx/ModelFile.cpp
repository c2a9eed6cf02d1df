// SPDX-License-Identifier: Apache-2.0
// Opens models and their external data; keeps reads inside the model's folder.
#include "ModelFile.h"

#include "Proto.h"
#include "WireFormat.h"

#include "autopar/Base/Utf8.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::autopar;

/// Raw data above this size stays in the file: all of it, so that every raw tensor has a place to
/// be read from.
static constexpr size_t inlineBytes = 0;

/// The first text of the message that is not UTF-8, which protobuf demands of texts but checks in
/// part of its versions only, and where it stands: "graph.node[3].name"; empty if there is none.
static std::string findBrokenText(const google::protobuf::Message &message, std::string &text) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection *reflection = message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    bool isMessage = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!isMessage && field->type() != FieldDescriptor::TYPE_STRING)
      continue;
    bool isList = field->is_repeated();
    for (int i = 0, count = isList ? reflection->FieldSize(message, field) : 1; i < count; ++i) {
      std::string place = field->name() + (isList ? "[" + std::to_string(i) + "]" : "");
      if (isMessage) {
        std::string inside =
            findBrokenText(isList ? reflection->GetRepeatedMessage(message, field, i)
                                  : reflection->GetMessage(message, field),
                           text);
        if (!inside.empty())
          return place + "." + inside;
        continue;
      }
      text = isList ? reflection->GetRepeatedString(message, field, i)
                    : reflection->GetString(message, field);
      if (!::autopar::isUtf8(text))
        return place;
    }
  }
  return "";
}

/// Parse errors are reported by us, with the file's name.
static void silenceProtobuf() {
  static bool once = (google::protobuf::SetLogHandler(nullptr), true);
  (void)once;
}

::autopar::Status mlir::autopar::readWholeModel(const std::string &path, onnx::ModelProto &model) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return ::autopar::Status::noInput("cannot open '" + path + "': " + std::strerror(errno));
  silenceProtobuf();
  if (!model.ParseFromIstream(&file))
    return ::autopar::Status::badInput(path +
                                       ": cannot be parsed as a whole; a model whose weights "
                                       "are in the same file may have 2 GB");
  return ::autopar::Status::ok();
}

ModelFile::ModelFile() : proto(std::make_unique<onnx::ModelProto>()) {}
ModelFile::~ModelFile() = default;

LogicalResult ModelFile::open(StringRef modelPath, Location location) {
  path = modelPath.str();
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(path, status) || !llvm::sys::fs::exists(status))
    return emitError(location) << "model '" << path << "' does not exist";
  if (status.type() != llvm::sys::fs::file_type::regular_file)
    return emitError(location) << "model '" << path << "' is no file";
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return emitError(location) << "cannot read model '" << path
                               << "': " << file.getError().message();
  buffer = std::move(*file);
  std::string error;
  std::optional<std::string> skeleton = makeSkeleton(buffer->getBuffer(), inlineBytes, error);
  if (!skeleton)
    return emitError(location) << "'" << path << "' is no ONNX model: " << error;
  silenceProtobuf();
  if (skeleton->size() > INT_MAX ||
      !proto->ParseFromArray(skeleton->data(), static_cast<int>(skeleton->size())))
    return emitError(location) << "'" << path << "' is no ONNX model: its fields do not parse";
  if (!proto->has_graph())
    return emitError(location) << "'" << path << "' is no ONNX model: it has no graph";
  std::string text, place = findBrokenText(*proto, text);
  if (!place.empty())
    return emitError(location) << "'" << path << "' is no ONNX model: " << place << " is \""
                               << ::autopar::escapedToUtf8(text)
                               << "\", which is not UTF-8; export the model with another name";
  return success();
}

/// Why `location` cannot name a file inside the model's folder; empty if it can.
static StringRef refuseLocation(StringRef location) {
  if (location.empty())
    return "is empty";
  if (location.contains('\0'))
    return "holds a zero byte";
  if (llvm::sys::path::is_absolute(location) || location.starts_with("/") ||
      location.contains('\\'))
    return "is not a relative path";
  if (llvm::is_contained(
          llvm::make_range(llvm::sys::path::begin(location), llvm::sys::path::end(location)), ".."))
    return "leaves the model's folder";
  return {};
}

FailureOr<ModelFile::External *> ModelFile::openExternal(StringRef location, std::string &error) {
  auto [entry, isNew] = externals.try_emplace(location);
  External &external = entry->second;
  if (!isNew)
    return &external;
  auto refuse = [&](const Twine &why) -> FailureOr<External *> {
    error = ("external data location '" + location + "' " + why).str();
    externals.erase(location);
    return failure();
  };
  if (StringRef why = refuseLocation(location); !why.empty())
    return refuse(why);
  SmallString<256> folder(llvm::sys::path::parent_path(path)), realFolder, realFile,
      spelled(folder);
  if (folder.empty())
    folder = ".";
  llvm::sys::path::append(spelled, location);
  external.path = std::string(spelled);
  SmallString<256> full(folder);
  llvm::sys::path::append(full, location);
  struct stat info;
  if (lstat(full.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR))
    return &external; // absent weights
  if (llvm::sys::fs::real_path(folder, realFolder) || llvm::sys::fs::real_path(full, realFile))
    return refuse("cannot be resolved");
  if (!realFolder.ends_with("/"))
    realFolder += "/";
  if (!StringRef(realFile).starts_with(realFolder))
    return refuse("is a link that leaves the model's folder");
  int descriptor = ::open(realFile.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0)
    return refuse("cannot be opened");
  bool opened = fstat(descriptor, &info) == 0;
  if (!opened || !S_ISREG(info.st_mode) || info.st_nlink > 1) {
    ::close(descriptor);
    return refuse(opened && S_ISREG(info.st_mode) ? "is a hard link, copy the file instead"
                                                  : "is no regular file");
  }
  auto file = llvm::MemoryBuffer::getOpenFile(llvm::sys::fs::convertFDToNativeFile(descriptor),
                                              realFile, info.st_size,
                                              /*RequiresNullTerminator=*/false);
  ::close(descriptor);
  if (!file)
    return refuse("cannot be read: " + file.getError().message());
  external.buffer = std::move(*file);
  return &external;
}

/// Left out of the skeleton by makeSkeleton: position and length in the model file.
static bool leftOutPlace(const onnx::TensorProto &tensor, uint64_t &offset, uint64_t &length) {
  bool found = false;
  const auto &unknown = tensor.GetReflection()->GetUnknownFields(tensor);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto &field = unknown.field(i);
    if (field.type() != google::protobuf::UnknownField::TYPE_VARINT)
      continue;
    if (field.number() == rawOffsetField)
      offset = field.varint();
    if (field.number() == rawLengthField) {
      length = field.varint();
      found = true;
    }
  }
  return found;
}

static FailureOr<TensorPlace> checkRange(TensorPlace place, StringRef content, uint64_t bytes,
                                         std::string &error) {
  if (place.length != bytes) {
    error =
        llvm::formatv("its shape and type take {0} bytes, but it holds {1}", bytes, place.length);
    return failure();
  }
  if (place.offset > content.size() || place.length > content.size() - place.offset) {
    error = llvm::formatv("{0} bytes from byte {1} on go beyond the end of '{2}', which has {3}; "
                          "give the weights that belong to the model",
                          place.length, place.offset, place.file, content.size());
    return failure();
  }
  place.bytes = content.substr(place.offset, place.length);
  return place;
}

FailureOr<TensorPlace> ModelFile::locate(const onnx::TensorProto &tensor, uint64_t bytes,
                                         std::string &error) {
  TensorPlace place;
  constexpr int external = 1;
  if (static_cast<int>(tensor.data_location()) != external) {
    if (!leftOutPlace(tensor, place.offset, place.length))
      return place;
    place.kind = TensorPlace::File;
    place.file = path;
    return checkRange(place, buffer->getBuffer(), bytes, error);
  }
  StringRef location, offset = "0", length;
  for (const auto &entry : tensor.external_data()) {
    StringRef key(entry.key()), value(entry.value());
    if (key == "location")
      location = value;
    else if (key == "offset")
      offset = value;
    else if (key == "length")
      length = value;
    else if (key != "checksum") {
      error = ("external data has an unknown key '" + key + "'").str();
      return failure();
    }
  }
  FailureOr<External *> source = openExternal(location, error);
  if (failed(source))
    return failure();
  uint64_t fileOffset, fileLength = bytes;
  if (offset.getAsInteger(10, fileOffset) ||
      (!length.empty() && length.getAsInteger(10, fileLength))) {
    error = "offset and length of external data must be numbers that are not negative";
    return failure();
  }
  place.file = (*source)->path;
  if (!(*source)->buffer) {
    place.kind = TensorPlace::Absent;
    return place;
  }
  place.kind = TensorPlace::File;
  place.offset = fileOffset;
  place.length = fileLength;
  return checkRange(place, (*source)->buffer->getBuffer(), bytes, error);
}
