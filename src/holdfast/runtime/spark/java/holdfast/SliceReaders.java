package holdfast;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Readers of one input of one batch, as Python has planned it:
 *
 * <pre>[{"tick": microseconds or null, "tasks": [[file, ...] for each task]} for each input]
 * file: {"path": "...", "schema": [size, crc], "parts": [[rows, offset, size, crc, skipped...], ...]}
 * </pre>
 *
 * Numbers after the checksum are the rows of the part to leave out, in order. A tick is a row of its
 * own after all others, null but for the last column, which is null in all others.
 */
public class SliceReaders implements PartitionReaderFactory {
    static final String MARK = "_hf_mark";
    private static final ObjectMapper JSON = new ObjectMapper();

    private final StructType schema;
    private final String plan;
    private final int index;

    SliceReaders(StructType schema, String plan, int index) {
        this.schema = schema;
        this.plan = plan;
        this.index = index;
    }

    public boolean supportColumnarReads(InputPartition part) {
        return true;
    }

    public PartitionReader createReader(InputPartition part) {
        throw new UnsupportedOperationException("slices are read in columns");
    }

    public PartitionReader createColumnarReader(InputPartition part) {
        int task = ((SliceSource.Part) part).part;
        try {
            List inputs = (List) JSON.readValue(this.plan, List.class);
            Map input = (Map) inputs.get(this.index);
            List files = (List) ((List) input.get("tasks")).get(task);
            return new Columns(this.schema, files, task == 0 ? (Number) input.get("tick") : null);
        } catch (IOException error) {
            throw new IllegalArgumentException("not a plan: " + this.plan, error);
        }
    }

    public static class Columns implements PartitionReader {
        private final StructType schema;
        private final int stored;
        private final SliceMessages messages;
        private final Deque waiting = new ArrayDeque();
        private Number tick;
        private ColumnarBatch current;

        Columns(StructType schema, List files, Number tick) {
            this.schema = schema;
            StructField[] fields = schema.fields();
            boolean marked = fields[fields.length - 1].name().equals(MARK);
            this.stored = marked ? fields.length - 1 : fields.length;
            this.tick = marked ? tick : null;
            this.messages = new SliceMessages(files, schema, this.stored);
        }

        public boolean next() throws IOException {
            release();
            while (this.waiting.isEmpty()) {
                ArrowRecordBatch message = this.messages.next();
                if (message == null) break;
                load(message);
            }
            if (!this.waiting.isEmpty()) {
                this.current = batch((VectorSchemaRoot) this.waiting.remove());
                return true;
            }
            if (this.tick == null) return false;
            this.current = tickRow(this.tick.longValue());
            this.tick = null;
            return true;
        }

        /** Spark closes a batch when it is done with it, so each gets vectors of its own. */
        private void load(ArrowRecordBatch message) {
            VectorSchemaRoot root =
                VectorSchemaRoot.create(this.messages.schema(), ArrowUtils.rootAllocator());
            boolean loaded = false;
            try {
                new VectorLoader(root).load(message);
                loaded = true;
            } finally {
                message.close();
                if (!loaded) root.close();
            }
            int[] skipped = this.messages.skipped();
            if (skipped.length == 0) {
                this.waiting.add(root);
                return;
            }
            int from = 0;
            for (int i = 0; i <= skipped.length; i++) {
                int to = i < skipped.length ? skipped[i] : root.getRowCount();
                if (to > from) this.waiting.add(root.slice(from, to - from));
                from = to + 1;
            }
            root.close();
        }

        private ColumnarBatch batch(VectorSchemaRoot root) {
            List vectors = root.getFieldVectors();
            int[] places = this.messages.places();
            ColumnVector[] columns = new ColumnVector[this.schema.length()];
            for (int i = 0; i < this.stored; i++) {
                columns[i] = new ArrowColumnVector((FieldVector) vectors.get(places[i]));
            }
            if (this.stored < columns.length) {
                columns[this.stored] = constant(root.getRowCount(), this.stored);
            }
            return new ColumnarBatch(columns, root.getRowCount());
        }

        private ColumnarBatch tickRow(long us) {
            ColumnVector[] columns = new ColumnVector[this.schema.length()];
            for (int i = 0; i < columns.length; i++) columns[i] = constant(1, i);
            ConstantColumnVector mark = (ConstantColumnVector) columns[this.stored];
            mark.setNotNull();
            mark.setLong(us);
            return new ColumnarBatch(columns, 1);
        }

        private ConstantColumnVector constant(int rows, int column) {
            ConstantColumnVector vector =
                new ConstantColumnVector(rows, this.schema.fields()[column].dataType());
            vector.setNull();
            return vector;
        }

        public Object get() {
            return this.current;
        }

        private void release() {
            if (this.current != null) this.current.close();
            this.current = null;
        }

        public void close() {
            release();
            while (!this.waiting.isEmpty()) ((VectorSchemaRoot) this.waiting.remove()).close();
            this.messages.close();
        }
    }
}
