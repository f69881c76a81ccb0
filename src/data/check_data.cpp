// SPDX-License-Identifier: Apache-2.0
#include "data/check_data.hpp"

#include <fmt/format.h>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "config/check_campaign.hpp"
#include "data/mtssl_data.hpp"
#include "data/text_batches.hpp"

namespace cambium::data {
namespace {

class DataChecker {
 public:
  explicit DataChecker(const config::Campaign& campaign) : campaign_(campaign) {}

  std::vector<std::string> run() {
    for (std::size_t i = 0; i < campaign_.phases.size(); ++i) {
      const config::Phase& phase = campaign_.phases[i];
      path_ = config::phase_path(campaign_, i);
      if (phase.start_from) {
        labels_ = labels_after_[*phase.start_from];
      }
      std::visit([&](const auto& settings) { check(settings); }, phase.settings);
      labels_after_[phase.name] = labels_;
    }
    if (!problems_.empty()) {
      throw Error(Code::bad_input, problems_);
    }
    return std::move(lines_);
  }

 private:
  // What the function finds wrong is kept, after the place of the key.
  template <typename F>
  void attempt(std::string_view key, const F& open) {
    try {
      open();
    } catch (const Error& e) {
      const std::string path = fmt::format("{}.{}", path_, key);
      problems_ += fmt::format(
          "{}{}: {}: {}", problems_.empty() ? "" : "\n", campaign_.places.of(path), path, e.what());
    }
  }

  void check_ordered(std::string_view key, const std::filesystem::path& path, dim_t length) {
    attempt(key, [&] { lines_.push_back(TextCorpus::open(path, length).describe()); });
  }

  void check(const config::PretrainPhase& phase) {
    attempt("data", [&] {
      for (std::string& line : TextBatches(phase, campaign_.run.seed).describe()) {
        lines_.push_back(std::move(line));
      }
    });
    if (phase.validation) {
      check_ordered("validation", phase.validation->path, phase.sequence_length);
    }
  }

  void check(const config::GrowPhase& /*phase*/) {}

  void check(const config::MtsslPhase& phase) {
    labels_.reset();
    attempt("labelled", [&] {
      MtsslData data = load_mtssl_data(phase, campaign_.run.seed);
      lines_.push_back(fmt::format("{}: {} labels, {} labelled, {} unlabelled, {} held-out texts",
                                   phase.labelled.string(),
                                   data.labels.size(),
                                   data.labelled.size(),
                                   data.unlabelled.size(),
                                   data.held_out.size()));
      lines_.insert(lines_.end(), data.warnings.begin(), data.warnings.end());
      labels_ = std::move(data.labels);
    });
  }

  void check(const config::EvaluatePhase& phase) {
    if (phase.task == config::EvaluateTask::loss) {
      check_ordered("data", phase.data, phase.sequence_length);
    } else if (labels_) {  // otherwise its mtssl phase has a problem, which is told
      attempt("data", [&] {
        lines_.push_back(fmt::format("{}: {} texts",
                                     phase.data.string(),
                                     load_labelled_texts(phase.data, *labels_, lines_).size()));
      });
    }
  }

  const config::Campaign& campaign_;
  std::string path_;
  std::optional<LabelSet> labels_;
  std::map<std::string, std::optional<LabelSet>> labels_after_;
  std::vector<std::string> lines_;
  std::string problems_;
};

}  // namespace

std::vector<std::string> check_data(const config::Campaign& campaign) {
  return DataChecker(campaign).run();
}

}  // namespace cambium::data
