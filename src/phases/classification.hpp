// phases/classification.hpp — accuracy on labelled texts, for evaluation and for semi-supervised
// phases.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "data/label_set.hpp"
#include "data/text_set.hpp"
#include "phases/session.hpp"

namespace cambium::phases {

struct Accuracy {
  dim_t correct = 0;
  dim_t samples = 0;
  bool is_stopped = false;

  [[nodiscard]] double share() const {
    return samples > 0 ? static_cast<double>(correct) / static_cast<double>(samples) : 0;
  }
};

// Over `texts` in order, in batches of global_batch_size; batches 0: all. `is_over`, asked before
// each batch with one answer on all ranks, ends it early. Collective over: world.
[[nodiscard]] Accuracy accuracy_on(Session& session,
                                   const data::TextSet& texts,
                                   dim_t sequence_length,
                                   dim_t global_batch_size,
                                   dim_t batches,
                                   const std::function<bool()>& is_over = {});

// The same on a JSON-lines file, with the labels of the last semi-supervised phase; texts of other
// labels are left out.
[[nodiscard]] Accuracy accuracy_on_texts(Session& session,
                                         const std::filesystem::path& path,
                                         dim_t sequence_length,
                                         dim_t global_batch_size,
                                         dim_t batches,
                                         const std::function<bool()>& is_over = {});

// One micro-batch of texts in this rank's memory.
struct TextMicroBatch {
  TextMicroBatch(dim_t batch, dim_t sequence_length);

  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> last;
  std::vector<std::int32_t> labels;
  std::vector<std::uint64_t> uids;

  void fill(const data::TextSet& texts, std::span<const dim_t> samples, dim_t sequence_length);
  [[nodiscard]] data::TextBatch view();
  // Row of each text's last real token in (T*B).
  [[nodiscard]] std::vector<dim_t> last_rows() const;
};

}  // namespace cambium::phases
