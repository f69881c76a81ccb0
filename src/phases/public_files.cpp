// SPDX-License-Identifier: Apache-2.0
#include "phases/public_files.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/read.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/write.hpp"
#include "model/public_form.hpp"
#include "phases/state.hpp"

namespace cambium::phases {
namespace {

using checkpoint::ElementType;
using checkpoint::PublicTensor;
using model::ParameterSpec;
using model::PublicPlace;

constexpr const char* kParameters = "/parameters/";
constexpr const char* kSlots[] = {"/optimizer/exp_avg/", "/optimizer/exp_avg_sq/"};

std::vector<ParameterSpec> parameters_of(const model::Spec& spec) {
  std::vector<ParameterSpec> all;
  for (const model::Entity& e : model::inventory(spec)) {
    all.insert(all.end(), e.parameters.begin(), e.parameters.end());
  }
  return all;
}

// Of the whole tensor at `place`.
std::vector<dim_t> public_shape(const PublicPlace& place, const ParameterSpec& p) {
  if (p.is_vector) {
    return {place.outputs};
  }
  return place.is_transposed ? std::vector<dim_t>{p.cols, place.outputs}
                             : std::vector<dim_t>{place.outputs, p.cols};
}

// Visits (ours, theirs): flat places of one parameter's elements in our and in their layout.
template <typename Visit>
void each_element(const PublicPlace& place, const ParameterSpec& p, const Visit& visit) {
  const dim_t outputs = p.is_vector ? p.cols : p.rows;
  const dim_t inputs = p.is_vector ? 1 : p.cols;
  for (dim_t o = 0; o < outputs; ++o) {
    for (dim_t i = 0; i < inputs; ++i) {
      const dim_t theirs = place.is_transposed ? i * place.outputs + place.first_output + o
                                               : (place.first_output + o) * inputs + i;
      visit(static_cast<std::size_t>(o * inputs + i), static_cast<std::size_t>(theirs));
    }
  }
}

// A folder's tensors by name, and which of them were taken.
class PublicFiles {
 public:
  PublicFiles(const std::filesystem::path& folder, const model::PublicForm& form)
      : folder_(folder), form_(form), files_(checkpoint::list_tensors(folder)) {}

  // Old files leave the family's prefix out.
  const PublicTensor& take(const std::string& name) {
    if (const PublicTensor* t = find(name)) {
      taken_.insert(t->name);
      return *t;
    }
    throw Error(
        Code::bad_input,
        folder_.string() + ": no tensor " + name +
            (name == model::kPublicHead ? ", which tie_word_embeddings: false of config.json wants"
                                        : ""));
  }

  // A tied table may stand there under its second name too, with the same bits.
  void take_second_name(const std::string& table) {
    const PublicTensor* head = find(model::kPublicHead);
    if (head == nullptr) {
      return;
    }
    const PublicTensor& first = take(table);
    const auto bytes_of = [](const std::vector<float>& v) {
      return std::string_view(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float));
    };
    const std::vector<float> a = checkpoint::read_tensor(first);
    const std::vector<float> b = checkpoint::read_tensor(*head);
    if (bytes_of(a) != bytes_of(b)) {
      throw Error(
          Code::bad_input,
          fmt::format("{}: {} is not {}, which tie_word_embeddings: true of config.json says",
                      head->file.string(),
                      head->name,
                      first.name));
    }
    taken_.insert(head->name);
  }

  [[nodiscard]] const std::vector<std::string>& notices() const {
    return files_.notices;
  }

  void expect_all_taken() const {
    for (const PublicTensor& t : files_.tensors) {
      if (taken_.count(t.name) == 0 && !model::is_ignored(form_, t.name)) {
        throw Error(Code::bad_input,
                    fmt::format("{}: {} {} belongs to no parameter of the network of config.json",
                                t.file.string(),
                                t.name,
                                t.shape_text()));
      }
    }
  }

 private:
  [[nodiscard]] const PublicTensor* find(const std::string& name) const {
    const std::string prefix(form_.prefix);
    for (const PublicTensor& t : files_.tensors) {
      if (t.name == name || (name.rfind(prefix, 0) == 0 && t.name == name.substr(prefix.size()))) {
        return &t;
      }
    }
    return nullptr;
  }

  std::filesystem::path folder_;
  const model::PublicForm& form_;
  checkpoint::PublicFolder files_;
  std::set<std::string> taken_;
};

// Every parameter in our layout, in the order of the inventory.
std::vector<std::vector<float>> read_parameters(const std::filesystem::path& folder,
                                                const model::Spec& spec,
                                                std::string& notices) {
  const model::PublicForm& form = model::public_form(spec);
  PublicFiles files(folder, form);
  std::vector<std::vector<float>> all;
  std::string last_name;
  std::vector<float> theirs;  // q, k and v of one layer stand in one tensor: read once
  for (const ParameterSpec& p : parameters_of(spec)) {
    const PublicPlace place = model::public_place(form, spec, p);
    const PublicTensor& tensor = files.take(place.name);
    if (tensor.shape != public_shape(place, p)) {
      PublicTensor wanted = tensor;
      wanted.shape = public_shape(place, p);
      throw Error(Code::bad_input,
                  fmt::format("{}: {} is {}, config.json wants {}",
                              tensor.file.string(),
                              tensor.name,
                              tensor.shape_text(),
                              wanted.shape_text()));
    }
    if (tensor.name != last_name) {
      theirs = checkpoint::read_tensor(tensor);
      last_name = tensor.name;
    }
    std::vector<float>& ours = all.emplace_back(static_cast<std::size_t>(p.elements()));
    each_element(place, p, [&](std::size_t to, std::size_t from) { ours[to] = theirs[from]; });
  }
  if (spec.is_tied) {
    files.take_second_name(std::string(form.prefix) + std::string(form.embedding) + ".weight");
  }
  files.expect_all_taken();
  for (const std::string& notice : files.notices()) {
    notices += notice + "\n";
  }
  return all;
}

checkpoint::Source whole_source(const std::string& array,
                                const ParameterSpec& p,
                                const float* data) {
  return {.array = array,
          .type = ElementType::f32,
          .part = {{0, p.rows}, {0, p.cols}},
          .data = data,
          .stride = p.cols};
}

nlohmann::json read_config(const std::filesystem::path& file) {
  try {
    return nlohmann::json::parse(read_file(file));
  } catch (const nlohmann::json::exception& e) {
    throw Error(Code::bad_input, file.string() + ": " + e.what());
  }
}

}  // namespace

std::string import_model(comm::Group& self,
                         const std::filesystem::path& from,
                         const std::filesystem::path& to) {
  if (std::filesystem::exists(to) && !std::filesystem::is_empty(to)) {
    throw Error(Code::usage, to.string() + ": not empty, expected a new folder");
  }
  State state;
  state.spec = model::spec_from_public(read_config(from / "config.json"));
  const std::vector<ParameterSpec> parameters = parameters_of(state.spec);
  std::string text;
  const std::vector<std::vector<float>> values = read_parameters(from, state.spec, text);
  checkpoint::WriteRequest request;
  request.folder = to;
  request.run = "import";
  request.state =
      to_json(state, {{"physical", {{"tensor", 1}, {"pipeline", 1}, {"context", 1}, {"data", 1}}}});
  dim_t largest = 0;
  for (const ParameterSpec& p : parameters) {
    largest = std::max(largest, p.elements());
  }
  const std::vector<float> zeros(static_cast<std::size_t>(largest));
  const auto add = [&](const char* kind, const ParameterSpec& p, const float* data) {
    request.arrays.push_back({.name = kind + p.name,
                              .type = ElementType::f32,
                              .rows = p.rows,
                              .cols = p.cols,
                              .vector = p.is_vector,
                              .attributes = {{"uid", p.uid}, {"birth_step", 0}, {"updates", 0}}});
    request.slices.push_back(whole_source(kind + p.name, p, data));
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    add(kParameters, parameters[i], values[i].data());
  }
  for (const char* kind : kSlots) {
    for (const ParameterSpec& p : parameters) {
      add(kind, p, zeros.data());
    }
  }
  const checkpoint::WriteResult written = checkpoint::write_checkpoint(self, request);
  return text +
         fmt::format(
             "{}: {} layers, {} parameters of family {}; start from it with model: {{from: {}}}",
             written.path.string(),
             state.spec.layers.size(),
             model::parameter_count(model::inventory(state.spec)),
             state.spec.family,
             written.path.string());
}

std::string export_model(const checkpoint::Checkpoint& from, const std::filesystem::path& to) {
  const model::Spec spec = state_from_json(from.state()).spec;
  const model::PublicForm& form = model::public_form(spec);
  const nlohmann::json config = model::public_config(spec);
  for (const char* name : {"config.json", "model.safetensors"}) {
    if (std::filesystem::exists(to / name)) {
      throw Error(Code::usage, (to / name).string() + ": exists; expected a folder without it");
    }
  }
  // Our parameters by the tensor that they stand in.
  std::map<std::string, std::vector<std::pair<PublicPlace, ParameterSpec>>> by_name;
  for (const ParameterSpec& p : parameters_of(spec)) {
    if (from.at(kParameters + p.name).array.type != ElementType::f32) {
      throw Error(Code::usage, from.path.string() + ": fp64 parameters; only fp32 can be exported");
    }
    const PublicPlace place = model::public_place(form, spec, p);
    by_name[place.name].emplace_back(place, p);
  }
  std::vector<checkpoint::NewTensor> tensors;
  for (const auto& [name, parts] : by_name) {
    const std::vector<dim_t> shape = public_shape(parts.front().first, parts.front().second);
    tensors.push_back({.name = name, .shape = shape, .values = [&from, &parts = parts, shape] {
                         dim_t elements = 1;
                         for (const dim_t size : shape) {
                           elements *= size;
                         }
                         std::vector<float> theirs(static_cast<std::size_t>(elements));
                         for (const auto& [place, p] : parts) {
                           std::vector<float> ours(static_cast<std::size_t>(p.elements()));
                           const checkpoint::Target target{.array = kParameters + p.name,
                                                           .type = ElementType::f32,
                                                           .part = {{0, p.rows}, {0, p.cols}},
                                                           .data = ours.data(),
                                                           .stride = p.cols};
                           checkpoint::read_slices(from, std::span(&target, 1));
                           each_element(place, p, [&](std::size_t mine, std::size_t other) {
                             theirs[other] = ours[mine];
                           });
                         }
                         return theirs;
                       }});
  }
  std::error_code ec;
  std::filesystem::create_directories(to, ec);
  if (ec) {
    throw Error(Code::storage, to.string() + ": cannot create: " + ec.message());
  }
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (!form.rotary.empty()) {
    metadata["rotary"] = form.rotary;
  }
  checkpoint::write_tensors(to / "model.safetensors", tensors, metadata);
  write_file_atomically(to / "config.json", config.dump(2) + "\n");
  return fmt::format("{}: {} tensors, {} parameters of family {}",
                     to.string(),
                     tensors.size(),
                     model::parameter_count(model::inventory(spec)),
                     spec.family);
}

}  // namespace cambium::phases
