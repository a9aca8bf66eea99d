package holdfast;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.unsafe.Platform;

/** Rows into record batches, as messages of an Arrow IPC stream. */
abstract class RecordBatches {
    /** Make the record batch of some rows; it is in `bytes` until the next one is made. */
    abstract void encode(long[] rows, int from, int to) throws IOException;

    abstract byte[] bytes();

    abstract int first();

    abstract int size();

    abstract void close();

    static RecordBatches of(StructType columns, Schema arrow, RowStore store) {
        int[] widths = FlatBatches.widths(columns);
        if (widths == null) return new AnyBatches(arrow, store);
        return new FlatBatches(widths, store);
    }

    /** Columns of any type, through Spark's own writer. */
    static class AnyBatches extends RecordBatches {
        private final RowStore store;
        private final VectorSchemaRoot root;
        private final ArrowWriter writer;
        private final UnsafeRow row;
        private final Message message = new Message();

        AnyBatches(Schema arrow, RowStore store) {
            this.store = store;
            this.root = VectorSchemaRoot.create(arrow, ArrowUtils.rootAllocator());
            this.writer = ArrowWriter.create(this.root);
            this.row = new UnsafeRow(store.fields);
        }

        void encode(long[] rows, int from, int to) throws IOException {
            byte[][] pages = this.store.pages();
            this.writer.reset();
            for (int i = from; i < to; i++) {
                byte[] page = pages[(int) (rows[i] >>> 32)];
                int place = (int) rows[i];
                this.row.pointTo(page, Platform.BYTE_ARRAY_OFFSET + place,
                    (page.length - place) & ~7);
                this.writer.write(this.row);
            }
            this.writer.finish();
            this.message.reset();
            ArrowRecordBatch batch = new VectorUnloader(this.root).getRecordBatch();
            try {
                MessageSerializer.serialize(
                    new WriteChannel(Channels.newChannel(this.message)), batch);
            } finally {
                batch.close();
            }
        }

        byte[] bytes() {
            return this.message.bytes();
        }

        int first() {
            return 0;
        }

        int size() {
            return this.message.size();
        }

        void close() {
            this.root.close();
        }
    }

    private static class Message extends ByteArrayOutputStream {
        byte[] bytes() {
            return this.buf;
        }
    }
}
